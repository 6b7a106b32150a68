"""Scores of streams pooled to the figures of a run."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import attrs

from wlk_bench.metrics.bootstrap import ratio_interval
from wlk_bench.metrics.distribution import Distribution
from wlk_bench.metrics.erasure import Erasure
from wlk_bench.metrics.error_rate import Distance, ErrorCounts
from wlk_bench.metrics.growth import COUNTERS, HOUR, slope, work_slope
from wlk_bench.metrics.word_time import boundary_error, shift

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wlk_bench.metrics.emission import Delay
    from wlk_bench.metrics.growth import Slope, WorkWindow
    from wlk_bench.metrics.real_time import Tick
    from wlk_bench.scoring import Lagging, SampleScore

__all__ = ["summarise"]


def summarise(scores: Sequence[SampleScore]) -> dict[str, Any]:
    """
    Return every figure of a run as plain data.

    Rates are fractions, times are seconds.  Error rates are of the whole corpus; latencies are
    pooled over words, ticks or streams.  Figures that cannot be measured are None.
    """
    return {
        "samples": len(scores),
        "audio_seconds": sum(score.audio_seconds for score in scores),
        "wer": _rate([score.words for score in scores], [s.word_blocks for s in scores]),
        "cer": _rate([score.characters for score in scores], [s.character_blocks for s in scores]),
        "wer_raw": Distance.total(score.words_raw for score in scores).rate,
        "cer_raw": Distance.total(score.characters_raw for score in scores).rate,
        "wer_of_samples": _distribution(
            score.words.rate for score in scores if score.words.rate is not None
        ),
        "perfect_samples": sum(score.words.errors == 0 for score in scores),
        "real_time": _real_time(scores),
        "latency": _latency(scores),
        "lagging": _lagging(scores),
        "stability": _stability(scores),
        "word_times": _word_times(scores),
        "flushes": _flushes(scores),
        "work": _work(scores),
        "growth": _growth(scores),
    }


def _rate(
    counts: Sequence[ErrorCounts], blocks: Sequence[tuple[tuple[int, int], ...]]
) -> dict[str, Any]:
    total = ErrorCounts.total(counts)
    interval = ratio_interval(list(chain.from_iterable(blocks)))
    return {
        "rate": total.rate,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "errors": total.errors,
        "reference_length": total.reference_length,
        "hypothesis_length": total.hypothesis_length,
        **attrs.asdict(total),
    }


def _real_time(scores: Sequence[SampleScore]) -> dict[str, Any]:
    audio = sum(score.time.audio_seconds for score in scores)
    busy = sum(score.time.busy_seconds for score in scores)
    ticks = list(chain.from_iterable(score.time.ticks for score in scores))
    return {
        "rtf": busy / audio if audio else None,
        "speed": audio / busy if busy else None,
        "busy_seconds": busy,
        "stream_rtf": _distribution(s.time.rtf for s in scores if s.time.rtf is not None),
        "tick_rtf": _distribution(tick.rtf for tick in ticks),
        "lateness": _distribution(tick.lateness for tick in ticks),
        "lateness_growth": _lateness_growth(scores),
        "keeps_up": _keeps_up(ticks),
    }


def _keeps_up(ticks: Sequence[Tick]) -> bool | None:
    """Return whether 95 of 100 ticks end before the next chunk is due."""
    if not ticks:
        return None
    lateness = Distribution.of(tick.lateness / tick.seconds for tick in ticks)
    return lateness is not None and lateness.p95 <= 1.0


def _lateness_growth(scores: Sequence[SampleScore]) -> dict[str, Any] | None:
    """Return the growth of lateness over the longest stream, in seconds an hour."""
    longest = max(scores, key=lambda score: score.audio_seconds, default=None)
    if longest is None:
        return None
    ticks = longest.time.ticks
    return _slope(
        slope([tick.audio_time / HOUR for tick in ticks], [tick.lateness for tick in ticks])
    )


def _latency(scores: Sequence[SampleScore]) -> dict[str, Any]:
    words = [word.delay for word in chain.from_iterable(score.emission for score in scores)]
    timed = sum(score.timed_words for score in scores)
    return {
        "emission": _delays(words),
        "coverage": len(words) / timed if timed else None,
        "first_commit": _delays(score.first_commit for score in scores),
        "first_display": _delays(score.first_display for score in scores),
        "finalisation": _delays(score.finalisation for score in scores),
    }


def _lagging(scores: Sequence[SampleScore]) -> dict[str, Any]:
    return {
        "laal": _mean(score.laal for score in scores),
        "stream_laal": _mean(chain.from_iterable(score.stream_laal for score in scores)),
        "stream_laal_displayed": _mean(
            chain.from_iterable(score.stream_laal_displayed for score in scores)
        ),
        "long_yaal": _mean(chain.from_iterable(score.long_yaal for score in scores)),
    }


def _stability(scores: Sequence[SampleScore]) -> dict[str, Any]:
    total = sum((score.erasure for score in scores), Erasure())
    return {
        "normalised_erasure": total.normalised,
        "erased_words": total.erased,
        "hold_back": _distribution(chain.from_iterable(score.hold_back for score in scores)),
    }


def _word_times(scores: Sequence[SampleScore]) -> dict[str, Any] | None:
    starts = list(chain.from_iterable(score.word_times.starts for score in scores))
    ends = list(chain.from_iterable(score.word_times.ends for score in scores))
    start, end = boundary_error(starts), boundary_error(ends)
    if start is None or end is None:
        return None
    timed = sum(score.timed_words for score in scores)
    return {
        "start": attrs.asdict(start),
        "end": attrs.asdict(end),
        "aas": shift(starts, ends),
        "coverage": len(starts) / timed if timed else None,
        "backsteps": sum(score.word_times.backsteps for score in scores),
    }


def _flushes(scores: Sequence[SampleScore]) -> dict[str, Any] | None:
    missing = list(chain.from_iterable(score.missing_at_flushes for score in scores))
    if not missing:
        return None
    return {
        "count": len(missing),
        "missing_words": sum(missing),
        "missing_per_flush": sum(missing) / len(missing),
        "worst": max(missing),
    }


def _work(scores: Sequence[SampleScore]) -> dict[str, float | None]:
    """Return the work per second of audio by counter; None where the backend cannot know it."""
    audio = sum(score.audio_seconds for score in scores)
    return {
        name: (
            sum(score.work.get(name, 0) for score in scores) / audio
            if audio and any(name in score.work for score in scores)
            else None
        )
        for name in COUNTERS
    }


def _growth(scores: Sequence[SampleScore]) -> dict[str, Any] | None:
    """Return the growth over the longest stream; None where it is too short to measure any."""
    longest = max(scores, key=lambda score: score.audio_seconds, default=None)
    if longest is None or len(longest.windows) < 3:  # noqa: PLR2004 -- warm-up and two to compare
        return None
    return {
        "stream_seconds": longest.audio_seconds,
        "work_per_second": {
            name: _slope(work_slope(longest.windows, name)) for name in sorted(longest.work)
        },
        "last_to_second_window": {
            name: _growth_ratio(longest.windows, name) for name in sorted(longest.work)
        },
        **{name: _slope(found) for name, found in longest.memory.items()},
    }


def _growth_ratio(windows: Sequence[WorkWindow], name: str) -> float | None:
    second, last = windows[1], windows[-1]
    before = second.counts.get(name, 0) / second.seconds
    return last.counts.get(name, 0) / last.seconds / before if before else None


def _slope(found: Slope | None) -> dict[str, Any] | None:
    return None if found is None else attrs.asdict(found)


def _delays(delays: Iterable[Delay | None]) -> dict[str, Any]:
    known = [delay for delay in delays if delay is not None]
    return {
        "unaware": _distribution(delay.unaware for delay in known),
        "aware": _distribution(delay.aware for delay in known),
    }


def _mean(values: Iterable[Lagging | None]) -> dict[str, float | None]:
    known = [value for value in values if value is not None]
    return {
        "unaware": _mean_of(value.unaware for value in known),
        "aware": _mean_of(value.aware for value in known),
    }


def _mean_of(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _distribution(values: Iterable[float]) -> dict[str, float] | None:
    found = Distribution.of(values)
    return None if found is None else attrs.asdict(found)
