"""Times of recognised words: how late they are emitted, and how far their own times are off."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_bench.events import Commit
from wlk_bench.metrics.emitted import screens

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wlk_bench.events import EventLog
    from wlk_bench.metrics.alignment import WordAlignment
    from wlk_bench.metrics.emitted import EmittedWord
    from wlk_bench.reference import Reference

COLLARS = (0.05, 0.1, 0.2)  #: seconds within which a boundary counts as correct


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
    commits = list(log.of(Commit))
    if not commits:
        return None
    end = reference.words[-1].end if reference.words else log.header.audio_seconds
    return _since(end, commits[-1].audio_time, commits[-1].wall)


def _since(time: float, audio_time: float, wall: float) -> Delay:
    return Delay(audio_time - time, wall - time)


@attrs.frozen(kw_only=True)
class TimeErrors:
    """
    Signed errors in seconds (positive: too late) of the words recognised in one stream.

    `backsteps` counts the emitted words that start before the word in front of them.
    """

    starts: tuple[float, ...] = ()
    ends: tuple[float, ...] = ()
    backsteps: int = 0


@attrs.frozen(kw_only=True)
class BoundaryError:
    """Errors of one kind of boundary: bias is the mean, the others are of absolute values."""

    bias: float
    median: float
    p90: float
    within: dict[str, float]  #: share of boundaries within each collar, by its milliseconds


def time_errors(
    reference: Reference, words: Sequence[EmittedWord], alignment: WordAlignment
) -> TimeErrors:
    """Compare the times of words aligned as equal."""
    pairs = [(reference.words[i], words[j]) for i, j in alignment.equal]
    return TimeErrors(
        starts=tuple(word.start - true.start for true, word in pairs),
        ends=tuple(word.end - true.end for true, word in pairs),
        backsteps=sum(b.start < a.start for a, b in pairwise(words)),
    )


def boundary_error(errors: Iterable[float]) -> BoundaryError | None:
    """Describe signed errors; None for no errors."""
    signed = np.array(list(errors))
    if not len(signed):
        return None
    size = np.abs(signed)
    return BoundaryError(
        bias=float(signed.mean()),
        median=float(np.median(size)),
        p90=float(np.percentile(size, 90)),
        within={
            f"{round(1000 * collar)} ms": float(np.mean(size <= collar + 1e-9))
            for collar in COLLARS
        },
    )


def shift(starts: Iterable[float], ends: Iterable[float]) -> float | None:
    """Return the accumulated average shift (AAS): the mean absolute error over all boundaries."""
    size = np.abs(np.array([*starts, *ends]))
    return float(size.mean()) if len(size) else None
