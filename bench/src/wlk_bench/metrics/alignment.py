"""Which hypothesis word stands for which reference word: one minimum edit distance alignment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_bench.metrics.edit_steps import edit_steps
from wlk_bench.metrics.normalise import match_key

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["WordAlignment", "align_words"]


@attrs.frozen
class WordAlignment:
    """
    Index pairs of a reference and a hypothesis, in order.

    `equal` are words that agree, `substituted` words that stand in each other's place.  Indices
    in neither are words that were missed or invented.
    """

    equal: tuple[tuple[int, int], ...]
    substituted: tuple[tuple[int, int], ...]

    @property
    def partners(self) -> dict[int, int]:
        """The hypothesis index of every reference word that has one."""
        return dict(sorted([*self.equal, *self.substituted]))


def align_words(reference: Sequence[str], hypothesis: Sequence[str]) -> WordAlignment:
    """
    Align word for word; letter case and punctuation do not count.

    Words that are nothing but punctuation take part on neither side.
    """
    ours = [(index, key) for index, word in enumerate(reference) if (key := match_key(word))]
    theirs = [(index, key) for index, word in enumerate(hypothesis) if (key := match_key(word))]
    steps = edit_steps([key for _, key in ours], [key for _, key in theirs])
    pairs: dict[str, list[tuple[int, int]]] = {"equal": [], "replace": []}
    for step in steps:
        if step.tag in pairs:
            pairs[step.tag] += [
                (ours[i][0], theirs[j][0])
                for i, j in zip(
                    range(step.src_start, step.src_end),
                    range(step.dest_start, step.dest_end),
                    strict=True,
                )
            ]
    return WordAlignment(tuple(pairs["equal"]), tuple(pairs["replace"]))
