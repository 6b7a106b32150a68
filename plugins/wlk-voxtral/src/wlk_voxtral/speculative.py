"""Speculative decoding: several steps of a streaming decoder in one forward, same result."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SpeculativeDecoding", "TokenPrediction"]


@attrs.frozen
class TokenPrediction:
    """A predicted token id, its probability, and its margin in logits over the second best."""

    id: int
    probability: float = 1.0
    margin: float = math.inf


class SpeculativeDecoding:
    """
    The state of a speculative decoding, without the model.

    In most steps of a stream the model predicts *pad*, which is silence.  So up to *width*
    positions are run in one forward with *pad* as draft.  They are kept up to the first prediction
    of another id (speculative decoding, arXiv:2211.17192).  *marker* announces text, so no draft
    follows it.  A *width* of 1 decodes step by step.

    Wide forwards round differently.  A prediction with a margin below *min_margin* could therefore
    differ from that of a single step, and is recomputed alone.

    Args:
        count: positions to run.
        known_ids: inputs known beforehand, which are the rest of a prompt or the last prediction.
        pad: the id of silence.
        marker: the id after which text follows.
        width: positions of one forward, at most; the rest of a prompt comes on top.
        min_margin: logits by which a prediction of a wide forward leads the second best, at least.

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
        self.predictions: list[TokenPrediction] = []  #: after the last known id, so far
        self.is_alone = False  #: whether the next forward must have no other positions

    @property
    def is_complete(self) -> bool:
        """Whether all positions were run."""
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
        Take the predictions after `next_ids`, and return how many of these positions hold.

        `is_wide` reports that the forward had several positions, of this stream or of others.
        """
        first = len(self._known) - 1  # the predictions before it are of known ids
        kept, self.is_alone = self._accepted(forward, first, is_wide=is_wide)
        self.predictions += forward[first:kept]
        self._left -= kept
        self._known = self._known[kept:] or [self.predictions[-1].id]
        return kept

    def _accepted(
        self, predictions: Sequence[TokenPrediction], first: int, *, is_wide: bool
    ) -> tuple[int, bool]:
        """Return how many positions of a forward hold, and whether the next one is run alone."""
        for index in range(first, len(predictions)):
            if is_wide and predictions[index].margin < self._min_margin:
                return index, True
            if predictions[index].id != self._pad:
                return index + 1, False
        return len(predictions), False
