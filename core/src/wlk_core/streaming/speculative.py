"""Several steps of a delayed stream in one pass of its model, where the outcome is the same."""

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
    """A decoder with a cache, for which the audio of the next steps is there already."""

    def forward(self, ids: Sequence[int]) -> Sequence[TokenPrediction]:
        """Run the next ``len(ids)`` positions with these inputs; a choice after each of them."""
        ...

    def truncate(self, count: int) -> None:
        """Go back to behind the first *count* positions of the last pass."""
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
    Decode *count* positions greedily and return the choices behind the last given id.

    *known_ids* are the inputs known beforehand: the rest of a prompt, or the last choice.  In most
    steps of a stream nothing is said, so up to *width* positions are run at once as if *pad* were
    chosen again and again; those up to the first other choice are kept (speculative decoding,
    arXiv:2211.17192, with silence for a draft).  A wider pass adds in another order: a choice that
    leads by less than *min_margin* is made again by a pass of its own.  After *marker* comes text,
    so nothing is drafted there.  A *width* of 1 decodes step by step.
    """
    said: list[TokenPrediction] = []
    known = list(known_ids)
    place, is_alone = 0, False
    while place < count:
        certain = min(len(known), count - place)
        draft = 0 if is_alone or known[-1] == marker else width - 1
        ids = known[:1] if is_alone else known[:certain]
        ids += [pad] * min(draft, count - place - certain)
        choices = model.forward(ids)
        first = len(known) - 1  # the first choice that counts
        kept, is_alone = _judge(choices, first, pad=pad, min_margin=min_margin)
        said += choices[first:kept]
        if kept < len(ids):
            model.truncate(kept)
        place += kept
        known = known[kept:] or [said[-1].id]
    return said


def _judge(
    choices: Sequence[TokenPrediction], first: int, *, pad: int, min_margin: float
) -> tuple[int, bool]:
    """Return the positions of a pass that hold, and whether the next one needs its own pass."""
    for place in range(first, len(choices)):
        if len(choices) > 1 and choices[place].margin < min_margin:
            return place, True
        if choices[place].id != pad:
            return place + 1, False
    return len(choices), False
