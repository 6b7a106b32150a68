"""Several steps of a streaming decoder in one forward, with the outcome of single steps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["StepModel", "TokenPrediction", "speculative_decode"]


@attrs.frozen
class TokenPrediction:
    """A predicted token id, its probability, and its margin in logits over the second best."""

    id: int
    probability: float = 1.0
    margin: float = math.inf


class StepModel(Protocol):
    """A decoder with a KV cache, for which the audio of the next steps is there already."""

    def forward(self, ids: Sequence[int]) -> Sequence[TokenPrediction]:
        """Run the next ``len(ids)`` positions with these inputs; a prediction after each."""
        ...

    def truncate(self, count: int) -> None:
        """Drop from the KV cache all but the first *count* positions of the last forward."""
        ...


def speculative_decode(
    model: StepModel,
    count: int,
    *,
    known_ids: Sequence[int],
    pad: int,
    marker: int,
    width: int,
    min_margin: float,
) -> list[TokenPrediction]:
    """
    Decode *count* positions greedily and return the predictions after the last known id.

    In most steps of a stream the model predicts *pad*, which is silence.  So up to *width*
    positions are run in one forward with *pad* as draft.  They are kept up to the first prediction
    of another id (speculative decoding, arXiv:2211.17192).  *marker* announces text, so no draft
    follows it.  A *width* of 1 decodes step by step.

    Wide forwards round differently.  A prediction with a margin below *min_margin* could therefore
    differ from that of a single step, and is recomputed alone.

    Args:
        model: the decoder, and the audio of these positions.
        count: positions to run.
        known_ids: inputs known beforehand, which are the rest of a prompt or the last prediction.
        pad: the id of silence.
        marker: the id after which text follows.
        width: positions of one forward, at most; the rest of a prompt comes on top.
        min_margin: logits by which a prediction of a wide forward leads the second best, at least.

    """
    predictions: list[TokenPrediction] = []
    known = list(known_ids)
    position, is_alone = 0, False
    while position < count:
        certain = min(len(known), count - position)
        draft = 0 if is_alone or known[-1] == marker else width - 1
        ids = known[:1] if is_alone else known[:certain]
        ids += [pad] * min(draft, count - position - certain)
        forward = model.forward(ids)
        first = len(known) - 1  # the predictions before it are of known ids
        kept, is_alone = _accepted(forward, first, pad=pad, min_margin=min_margin)
        predictions += forward[first:kept]
        if kept < len(ids):
            model.truncate(kept)
        position += kept
        known = known[kept:] or [predictions[-1].id]
    return predictions


def _accepted(
    predictions: Sequence[TokenPrediction], first: int, *, pad: int, min_margin: float
) -> tuple[int, bool]:
    """Return how many positions of a forward hold, and whether the next one is run alone."""
    for index in range(first, len(predictions)):
        if len(predictions) > 1 and predictions[index].margin < min_margin:
            return index, True
        if predictions[index].id != pad:
            return index + 1, False
    return len(predictions), False
