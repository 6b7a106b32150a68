"""Timing of recognised words: how late they are emitted, and the errors of their times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_bench.events import Commit
from wlk_bench.metrics.emitted import screens

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wlk_bench.events import EventLog
    from wlk_bench.metrics.alignment import WordAlignment
    from wlk_bench.metrics.emitted import EmittedWord, Screen
    from wlk_bench.reference import Reference

COLLARS = (0.05, 0.1, 0.2)  #: seconds within which a boundary counts as correct


@attrs.frozen
class Delay:
    """
    A delay in seconds, computation-unaware and computation-aware.

    `unaware` is measured in audio inserted by then; `aware` is measured on the clock, so it
    includes computation and queueing.  In an average it is None if no word counts on the clock.
    """

    unaware: float
    aware: float | None


def word_delays(
    reference: Reference, words: Sequence[EmittedWord], alignment: WordAlignment
) -> tuple[Delay, ...]:
    """
    Return the time from the true end to the emission of each recognised word.

    Only words aligned as equal count; their share of all words is the coverage.
    """
    return tuple(_since(reference.words[i].end, words[j]) for i, j in alignment.equal)


def first_commit(reference: Reference, log: EventLog) -> Delay | None:
    """Return the time from the true start of the first word to the first committed text."""
    return _since_first_word(reference, (each for each in log.of(Commit) if each.tokens))


def first_display(reference: Reference, log: EventLog) -> Delay | None:
    """Return the time from the true start of the first word to the first displayed text."""
    return _since_first_word(reference, (each for each in screens(log) if each.tail))


def finalisation(reference: Reference, log: EventLog) -> Delay | None:
    """
    Return the time from the end of speech to the last commit.

    Speech ends with the last reference word, or with the audio if word times are unknown.
    """
    commits = list(log.of(Commit))
    if not commits:
        return None
    end = reference.words[-1].end if reference.words else log.header.audio_seconds
    return _since(end, commits[-1])


def _since_first_word(reference: Reference, shown: Iterator[Commit | Screen]) -> Delay | None:
    first = next(shown, None)
    return None if first is None or not reference.words else _since(reference.words[0].start, first)


def _since(time: float, emitted: EmittedWord | Commit | Screen) -> Delay:
    return Delay(emitted.audio_time - time, emitted.wall - time)


def time_errors(
    reference: Reference, words: Sequence[EmittedWord], alignment: WordAlignment
) -> tuple[tuple[float, float], ...]:
    """
    Return the errors of the start and the end of each word aligned as equal.

    They are in seconds, and positive if the word's time is too late.
    """
    pairs = [(reference.words[i], words[j]) for i, j in alignment.equal]
    return tuple((word.start - true.start, word.end - true.end) for true, word in pairs)


def boundary_error(errors: Sequence[float]) -> dict[str, Any]:
    """Describe at least one signed error: bias is the mean, the rest is of absolute values."""
    size = np.abs(errors)
    return {
        "bias": float(np.mean(errors)),
        "median": float(np.median(size)),
        "p90": float(np.percentile(size, 90)),
        "within": {
            f"{round(1000 * collar)} ms": float(np.mean(size <= collar + 1e-9))
            for collar in COLLARS
        },
    }
