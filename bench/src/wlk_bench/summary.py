"""Pool the scores of streams into the figures of a run."""

from __future__ import annotations

from itertools import chain
from statistics import fmean
from typing import TYPE_CHECKING, Any

import attrs

from wlk_bench.metrics.error_rate import ErrorCounts
from wlk_bench.metrics.statistics import Distribution, pooled_rate
from wlk_bench.metrics.timing import boundary_error
from wlk_bench.metrics.work import COUNTERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wlk_bench.metrics.timing import Delay
    from wlk_bench.scoring import SampleScore


def summarise(scores: Sequence[SampleScore]) -> dict[str, Any]:
    """
    Return every figure of a run as plain data.

    Rates are fractions, times are seconds.  Error rates are of the whole corpus; latencies are
    pooled over words, ticks or streams.  Figures that could not be measured are None.
    """
    audio = sum(score.audio_seconds for score in scores)
    erased = sum(score.erasure.erased for score in scores)
    final = sum(score.erasure.final for score in scores)
    missing = [count for score in scores for count in score.missing_at_flushes]
    return {
        "samples": len(scores),
        "audio_seconds": audio,
        "wer": _rate([score.words for score in scores], [s.word_blocks for s in scores]),
        "cer": _rate([score.characters for score in scores], [s.character_blocks for s in scores]),
        "wer_raw": ErrorCounts.total(score.words_raw for score in scores).rate,
        "cer_raw": ErrorCounts.total(score.characters_raw for score in scores).rate,
        # Of samples, not of the corpus: whether the errors are in a few of them.
        "sample_wer": Distribution.figures(
            (score.words.rate for score in scores if score.words.rate is not None),
            "p50",
            "p90",
            "p95",
        ),
        "perfect_samples": sum(score.words.errors == 0 for score in scores),
        "real_time": _real_time(scores),
        "latency": _latency(scores),
        "lagging": {
            "laal": _delays(_mean, (score.laal for score in scores)),
            "long_yaal": _delays(_mean, chain.from_iterable(s.long_yaal for s in scores)),
        },
        "stability": {
            "normalised_erasure": erased / final if final else None,
            "erased_words": erased,
            "hold_back": Distribution.figures(chain.from_iterable(s.hold_back for s in scores)),
        },
        "word_times": _word_times(scores),
        "flushes": {"count": len(missing), "missing_words": sum(missing)} if missing else None,
        # Per second of audio; None if the backend cannot know the counter.
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
    audio = sum(score.audio_seconds for score in scores)
    busy = sum(score.busy_seconds for score in scores)
    ticks = [tick for score in scores for tick in score.ticks]
    relative = Distribution.of(tick.lateness / tick.seconds for tick in ticks)
    return {
        "rtf": busy / audio if audio else None,
        "speed": audio / busy if busy else None,
        "busy_seconds": busy,
        "tick_rtf": Distribution.figures(tick.busy / tick.seconds for tick in ticks),
        "lateness": Distribution.figures(tick.lateness for tick in ticks),
        # Whether 95 % of the ticks end before the next chunk is due.
        "keeps_up": None if relative is None else relative.p95 <= 1.0,
    }


def _latency(scores: Sequence[SampleScore]) -> dict[str, Any]:
    words = [delay for score in scores for delay in score.emission]
    timed = sum(score.timed_words for score in scores)
    return {
        "emission": _delays(Distribution.figures, words),
        "coverage": len(words) / timed if timed else None,
        "first_commit": _delays(Distribution.figures, (s.first_commit for s in scores)),
        "first_display": _delays(Distribution.figures, (s.first_display for s in scores)),
        "finalisation": _delays(Distribution.figures, (s.finalisation for s in scores)),
    }


def _word_times(scores: Sequence[SampleScore]) -> dict[str, Any] | None:
    errors = [each for score in scores for each in score.word_times]
    if not errors:
        return None
    starts, ends = zip(*errors, strict=True)
    timed = sum(score.timed_words for score in scores)
    return {
        "start": boundary_error(starts),
        "end": boundary_error(ends),
        "aas": fmean(map(abs, [*starts, *ends])),  # accumulated average shift
        "coverage": len(errors) / timed if timed else None,
        "backsteps": sum(score.backsteps for score in scores),
    }


def _growth(scores: Sequence[SampleScore]) -> dict[str, Any] | None:
    """Return the growth over the longest stream; None if it is too short to show any."""
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


def _delays(
    describe: Callable[[list[float]], object], delays: Iterable[Delay | None]
) -> dict[str, Any]:
    known = [delay for delay in delays if delay is not None]
    return {
        "unaware": describe([delay.unaware for delay in known]),
        "aware": describe([delay.aware for delay in known if delay.aware is not None]),
    }


def _mean(values: list[float]) -> float | None:
    return fmean(values) if values else None
