"""Several steps of a delayed stream in one pass of its model, where the outcome is the same."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Choice", "StepModel", "decode_steps"]


@attrs.frozen
class Choice:
    """An id that a model chose, how probable it was, and its lead in logits over the second."""

    id: int
    probability: float = 1.0
    lead: float = math.inf


class StepModel(Protocol):
    """A decoder with a cache, for which the audio of the next steps is there already."""

    def forward(self, ids: Sequence[int]) -> Sequence[Choice]:
        """Run the next ``len(ids)`` positions with these inputs; a choice after each of them."""
        ...

    def keep(self, count: int) -> None:
        """Go back to behind the first *count* positions of the last pass."""
        ...


def decode_steps(
    model: StepModel,
    count: int,
    *,
    given: Sequence[int],
    pad: int,
    marker: int,
    width: int,
    least_lead: float,
) -> list[Choice]:
    """
    Decode *count* positions greedily and return the choices behind the last given id.

    *given* are the inputs known beforehand: the rest of a prompt, or the last choice.  In most
    steps of a stream nothing is said, so up to *width* positions are run at once as if *pad* were
    chosen again and again; those up to the first other choice are kept (speculative decoding,
    arXiv:2211.17192, with silence for a draft).  A wider pass adds in another order: a choice that
    leads by less than *least_lead* is made again by a pass of its own.  After *marker* comes text,
    so nothing is drafted there.  A *width* of 1 decodes step by step.
    """
    said: list[Choice] = []
    known = list(given)
    place, is_alone = 0, False
    while place < count:
        certain = min(len(known), count - place)
        draft = 0 if is_alone or known[-1] == marker else width - 1
        ids = known[:1] if is_alone else known[:certain]
        ids += [pad] * min(draft, count - place - certain)
        choices = model.forward(ids)
        first = len(known) - 1  # the first choice that counts
        kept, is_alone = _judge(choices, first, pad=pad, least_lead=least_lead)
        said += choices[first:kept]
        if kept < len(ids):
            model.keep(kept)
        place += kept
        known = known[kept:] or [said[-1].id]
    return said


def _judge(
    choices: Sequence[Choice], first: int, *, pad: int, least_lead: float
) -> tuple[int, bool]:
    """Return the positions of a pass that hold, and whether the next one needs its own pass."""
    for place in range(first, len(choices)):
        if len(choices) > 1 and choices[place].lead < least_lead:
            return place, True
        if choices[place].id != pad:
            return place + 1, False
    return len(choices), False
