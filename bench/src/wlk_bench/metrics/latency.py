"""Emission latency from spoken to committed: per word, of the first word and of the last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_bench.events import Commit
from wlk_bench.metrics.emitted import screens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_bench.events import EventLog
    from wlk_bench.metrics.alignment import WordAlignment
    from wlk_bench.metrics.emitted import EmittedWord
    from wlk_bench.reference import Reference

__all__ = ["Delay", "finalisation", "first_commit", "first_display", "word_delays"]


@attrs.frozen
class Delay:
    """
    Seconds of delay, computation-unaware and computation-aware.

    Unaware counts the audio given by then.  Aware counts time on the clock, including the work and
    the waiting for earlier work.
    """

    unaware: float
    aware: float


def word_delays(
    reference: Reference, words: Sequence[EmittedWord], alignment: WordAlignment
) -> tuple[Delay, ...]:
    """
    Return the time from the true end to the emission of each recognised word.

    Only words aligned as equal count; their share of all words is the coverage.
    """
    return tuple(
        _since(reference.words[i].end, words[j].audio_time, words[j].wall)
        for i, j in alignment.equal
    )


def first_commit(reference: Reference, log: EventLog) -> Delay | None:
    """Return the time from the true start of the first word to the first committed text."""
    first = next((commit for commit in log.of(Commit) if commit.tokens), None)
    if first is None or not reference.words:
        return None
    return _since(reference.words[0].start, first.audio_time, first.wall)


def first_display(reference: Reference, log: EventLog) -> Delay | None:
    """Return the time from the true start of the first word to the first text on the screen."""
    first = next((screen for screen in screens(log) if screen.tail), None)
    if first is None or not reference.words:
        return None
    return _since(reference.words[0].start, first.audio_time, first.wall)


def finalisation(reference: Reference, log: EventLog) -> Delay | None:
    """
    Return the time from the end of speech to the last commit.

    Speech ends with the last reference word; where word times are unknown, with the audio.
    """
    last = None
    for commit in log.of(Commit):
        last = commit
    if last is None:
        return None
    end = reference.words[-1].end if reference.words else log.header.audio_seconds
    return _since(end, last.audio_time, last.wall)


def _since(time: float, audio_time: float, wall: float) -> Delay:
    return Delay(audio_time - time, wall - time)
