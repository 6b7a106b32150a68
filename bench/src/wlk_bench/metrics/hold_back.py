"""Hold-back: the audio received that has no final text yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_bench.events import FLUSHES, AudioIn, Call

if TYPE_CHECKING:
    from wlk_bench.events import EventLog

__all__ = ["hold_back"]


def hold_back(log: EventLog) -> tuple[float, ...]:
    """
    Return the seconds between the end of final text and the end of the audio after each chunk.

    A policy that commits fast holds little back.  Audio without speech counts as held back where a
    backend does not raise `stable_up_to`.
    """
    held: list[float] = []
    is_open = False
    for event in log.events:
        if isinstance(event, AudioIn):
            held.append(event.audio_time)
            is_open = True
        elif isinstance(event, Call) and event.kind in FLUSHES:
            is_open = False
        elif isinstance(event, Call) and is_open and not event.is_failed:
            held[-1] = max(0.0, event.audio_time - event.stable_up_to)
    return tuple(held)
