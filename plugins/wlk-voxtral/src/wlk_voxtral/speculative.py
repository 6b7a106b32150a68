"""Speculative decoding: run several steps of a stream in one forward, with the same result."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence


@attrs.frozen
class TokenPrediction:
    """A predicted token id, its probability, and its margin in logits over the second best."""

    id: int
    probability: float = 1.0
    margin: float = math.inf


class SpeculativeDecoding:
    """
    The state of a speculative decoding, without the model.

    In most steps of a stream the model predicts *pad*, which stands for silence.  So up to *width*
    positions are run in one forward with *pad* as the draft, and kept up to the first prediction of
    another id (speculative decoding, arXiv:2211.17192).  *marker* announces text, so no draft
    follows it.  A *width* of 1 decodes step by step.

    Wide forwards round differently.  A prediction with a margin below *min_margin* could therefore
    differ from that of a single step, and is recomputed alone.

    *count* positions are run.  *known_ids* are the inputs known beforehand: the rest of a prompt,
    which does not count towards *width*, or the last prediction.
    """

    def __init__(
        self,
        count: int,
        *,
        known_ids: Sequence[int],
        pad: int,
        marker: int,
        width: int,
        min_margin: float,
    ) -> None:
        self._left = count
        self._known = list(known_ids)
        self._pad = pad
        self._marker = marker
        self._width = width
        self._min_margin = min_margin
        self.predictions: list[TokenPrediction] = []  #: those after the last known id
        self.is_alone = False  #: whether the next forward must run a single position

    @property
    def is_complete(self) -> bool:
        """Whether all positions have been run."""
        return self._left <= 0

    def next_ids(self) -> list[int]:
        """Return the inputs of the next forward."""
        if self.is_alone:
            return self._known[:1]
        certain = self._known[: self._left]
        draft = 0 if self._known[-1] == self._marker else self._width - 1
        return certain + [self._pad] * min(draft, self._left - len(certain))

    def accept(self, forward: Sequence[TokenPrediction], *, is_wide: bool) -> int:
        """
        Take the predictions after `next_ids`, and return how many of these positions to keep.

        `is_wide` tells whether the forward had several positions, of this stream or of others.
        """
        first = len(self._known) - 1  # index of the prediction after the last known id
        kept, self.is_alone = len(forward), False
        for index, prediction in enumerate(forward[first:], first):
            if is_wide and prediction.margin < self._min_margin:
                kept, self.is_alone = index, True
                break
            if prediction.id != self._pad:
                kept = index + 1
                break
        self.predictions += forward[first:kept]
        self._left -= kept
        self._known = self._known[kept:] or [self.predictions[-1].id]
        return kept
