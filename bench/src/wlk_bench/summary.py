"""Scores of streams pooled to the figures of a run."""

from __future__ import annotations

from itertools import chain
from statistics import fmean
from typing import TYPE_CHECKING, Any

import attrs

from wlk_bench.metrics.error_rate import ErrorCounts
from wlk_bench.metrics.stability import Erasure
from wlk_bench.metrics.statistics import Distribution, pooled_rate
from wlk_bench.metrics.timing import boundary_error, shift
from wlk_bench.metrics.work import COUNTERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wlk_bench.metrics.lagging import Lagging
    from wlk_bench.metrics.timing import Delay
    from wlk_bench.scoring import SampleScore


def summarise(scores: Sequence[SampleScore]) -> dict[str, Any]:
    """
    Return every figure of a run as plain data.

    Rates are fractions, times are seconds.  Error rates are of the whole corpus; latencies are
    pooled over words, ticks or streams.  Figures that cannot be measured are None.
    """
    audio = sum(score.audio_seconds for score in scores)
    erased = sum((score.erasure for score in scores), Erasure())
    missing = [count for score in scores for count in score.missing_at_flushes]
    return {
        "samples": len(scores),
        "audio_seconds": audio,
        "wer": _rate([score.words for score in scores], [s.word_blocks for s in scores]),
        "cer": _rate([score.characters for score in scores], [s.character_blocks for s in scores]),
        "wer_raw": ErrorCounts.total(score.words_raw for score in scores).rate,
        "cer_raw": ErrorCounts.total(score.characters_raw for score in scores).rate,
        "perfect_samples": sum(score.words.errors == 0 for score in scores),
        "real_time": _real_time(scores),
        "latency": _latency(scores),
        "lagging": {
            "laal": _means(score.laal for score in scores),
            "long_yaal": _means(chain.from_iterable(score.long_yaal for score in scores)),
        },
        "stability": {
            "normalised_erasure": erased.normalised,
            "erased_words": erased.erased,
            "hold_back": _distribution(chain.from_iterable(s.hold_back for s in scores)),
        },
        "word_times": _word_times(scores),
        "flushes": {"count": len(missing), "missing_words": sum(missing)} if missing else None,
        # Per second of audio; None where the backend cannot know a counter.
        "work": {
            name: sum(score.work.get(name, 0) for score in scores) / audio
            if audio and any(name in score.work for score in scores)
            else None
            for name in COUNTERS
        },
        "growth": _growth(scores),
    }


def _rate(
    counts: Sequence[ErrorCounts], blocks: Sequence[tuple[tuple[int, int], ...]]
) -> dict[str, Any]:
    total = ErrorCounts.total(counts)
    return {
        **pooled_rate(list(chain.from_iterable(blocks))),
        "errors": total.errors,
        "reference_length": total.reference_length,
        "hypothesis_length": total.hypothesis_length,
        **attrs.asdict(total),
    }


def _real_time(scores: Sequence[SampleScore]) -> dict[str, Any]:
    audio = sum(score.time.audio_seconds for score in scores)
    busy = sum(score.time.busy_seconds for score in scores)
    ticks = [tick for score in scores for tick in score.time.ticks]
    relative = Distribution.of(tick.lateness / tick.seconds for tick in ticks)
    return {
        "rtf": busy / audio if audio else None,
        "speed": audio / busy if busy else None,
        "busy_seconds": busy,
        "tick_rtf": _distribution(tick.busy / tick.seconds for tick in ticks),
        "lateness": _distribution(tick.lateness for tick in ticks),
        # 95 of 100 ticks end before the next chunk is due.
        "keeps_up": None if relative is None else relative.p95 <= 1.0,
    }


def _latency(scores: Sequence[SampleScore]) -> dict[str, Any]:
    words = [delay for score in scores for delay in score.emission]
    timed = sum(score.timed_words for score in scores)
    return {
        "emission": _delays(words),
        "coverage": len(words) / timed if timed else None,
        "first_commit": _delays(score.first_commit for score in scores),
        "first_display": _delays(score.first_display for score in scores),
        "finalisation": _delays(score.finalisation for score in scores),
    }


def _word_times(scores: Sequence[SampleScore]) -> dict[str, Any] | None:
    starts = [error for score in scores for error in score.word_times.starts]
    ends = [error for score in scores for error in score.word_times.ends]
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


def _growth(scores: Sequence[SampleScore]) -> dict[str, Any] | None:
    """Return the growth over the longest stream; None where it is too short to measure any."""
    longest = max(scores, key=lambda score: score.audio_seconds, default=None)
    if longest is None or len(longest.windows) < 3:  # noqa: PLR2004 -- warm-up and two to compare
        return None
    second, last = longest.windows[1], longest.windows[-1]
    ratios: dict[str, float | None] = {}
    for name in sorted(longest.work):
        before = second.counts.get(name, 0) / second.seconds
        ratios[name] = last.counts.get(name, 0) / last.seconds / before if before else None
    return {
        "stream_seconds": longest.audio_seconds,
        "last_to_second_window": ratios,
        **longest.memory,
    }


def _delays(delays: Iterable[Delay | None]) -> dict[str, Any]:
    known = [delay for delay in delays if delay is not None]
    return {
        "unaware": _distribution(delay.unaware for delay in known),
        "aware": _distribution(delay.aware for delay in known),
    }


def _means(lags: Iterable[Lagging | None]) -> dict[str, float | None]:
    known = [lag for lag in lags if lag is not None]
    unaware = [lag.unaware for lag in known]
    aware = [lag.aware for lag in known if lag.aware is not None]
    return {
        "unaware": fmean(unaware) if unaware else None,
        "aware": fmean(aware) if aware else None,
    }


def _distribution(values: Iterable[float | None]) -> dict[str, float] | None:
    found = Distribution.of(value for value in values if value is not None)
    return None if found is None else attrs.asdict(found)
