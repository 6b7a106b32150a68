"""Flicker: the amount of text taken back from the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_bench.metrics.emitted import common_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_bench.metrics.emitted import Screen

__all__ = ["Erasure", "erasure"]


@attrs.frozen
class Erasure:
    """Words taken back, and words of the final text; those of several streams add up."""

    erased: int = 0
    final: int = 0

    @property
    def normalised(self) -> float | None:
        """Words taken back per final word; below 0.2 a display counts as stable."""
        return self.erased / self.final if self.final else None

    def __add__(self, other: Erasure) -> Erasure:
        """Return the counts of both."""
        return Erasure(self.erased + other.erased, self.final + other.final)


def erasure(displayed: Iterable[Screen]) -> Erasure:
    """
    Return the normalised erasure of the displayed text, committed and hypothesis.

    Each change costs the words after the longest prefix that stays
    (https://aclanthology.org/2020.iwslt-1.27/).
    """
    erased = 0
    shown: list[str] = []
    for screen in displayed:
        before, after = shown[screen.base :], screen.texts
        erased += len(before) - common_prefix(before, after)
        shown[screen.base :] = after
    return Erasure(erased, len(shown))
