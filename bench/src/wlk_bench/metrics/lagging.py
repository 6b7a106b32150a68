"""Average lagging of a transcript behind its source: LAAL and LongYAAL."""

from __future__ import annotations

from functools import partial
from itertools import takewhile
from statistics import fmean
from typing import TYPE_CHECKING

from wlk_bench.metrics.segmentation import soft_segments
from wlk_bench.metrics.timing import Delay
from wlk_bench.reference import ReferenceSegment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wlk_bench.metrics.emitted import EmittedWord
    from wlk_bench.reference import Reference


def laal(delays: Sequence[float], *, source_seconds: float, reference_length: int) -> float | None:
    """
    Return Length-Adaptive Average Lagging (https://arxiv.org/abs/2206.05807).

    *delays* are the emission times of the words in seconds from the start of the source.  LAAL is
    the mean of ``d[i] - i * X / max(|Y|, |Y*|)``, i from 0, over the words up to the first one at
    or after the end of the source.  The result is None without words or without a source.
    """
    if not delays or source_seconds <= 0:
        return None
    pace = source_seconds / max(len(delays), reference_length)
    last = next((i for i, delay in enumerate(delays) if delay >= source_seconds), len(delays))
    return fmean(delay - index * pace for index, delay in enumerate(delays[: last + 1]))


def yaal(
    delays: Sequence[float],
    *,
    source_seconds: float,
    reference_length: int,
    recording_seconds: float | None = None,
) -> float | None:
    """
    Return Yet Another Average Lagging (https://arxiv.org/abs/2509.17349).

    Unlike `laal`, it counts only words emitted strictly before the end of the source, because the
    others were not emitted simultaneously.  For a segment of a longer recording (LongYAAL), it
    counts words emitted before `recording_seconds`, the end of the recording relative to the start
    of the segment.  The result is None if no word counts.
    """
    if not delays or source_seconds <= 0:
        return None
    limit = source_seconds if recording_seconds is None else recording_seconds
    pace = source_seconds / max(len(delays), reference_length)
    counted = takewhile(lambda delay: delay < limit, delays)
    lags = [delay - index * pace for index, delay in enumerate(counted)]
    return fmean(lags) if lags else None


def source_laal(
    reference: Reference, words: Sequence[EmittedWord], audio_seconds: float, unit: str = "word"
) -> Delay | None:
    """Return the LAAL of a whole stream, treated as one sentence."""
    length = len(_units(reference.text, unit))
    lag = partial(laal, source_seconds=audio_seconds, reference_length=length)
    return _lagging(words, 0.0, lag)


def long_yaal(
    reference: Reference, words: Sequence[EmittedWord], audio_seconds: float, unit: str = "word"
) -> tuple[Delay, ...]:
    """
    Return the YAAL of each segment, after soft segmentation; their mean is LongYAAL.

    The recording ends with its last segment.  A segment is left out if it has no words, or if all
    its words were emitted after that end.
    """
    whole = ReferenceSegment(reference.text, 0.0, audio_seconds)
    segments = reference.segments or (whole,)
    texts = [_units(segment.text, unit) for segment in segments]
    end = max(segment.end for segment in segments)
    delays: list[Delay | None] = []
    indices = soft_segments(texts, [word.text for word in words])
    for segment, text, own in zip(segments, texts, indices, strict=True):
        lag = partial(
            yaal,
            source_seconds=segment.end - segment.start,
            reference_length=len(text),
            recording_seconds=end - segment.start,
        )
        delays.append(_lagging([words[i] for i in own], segment.start, lag))
    return tuple(delay for delay in delays if delay is not None)


def _lagging(
    words: Sequence[EmittedWord], start: float, lag: Callable[[Sequence[float]], float | None]
) -> Delay | None:
    """Return both kinds of lagging of *words*, timed from the start of their segment."""
    unaware = lag([word.audio_time - start for word in words])
    aware = lag([word.wall - start for word in words])
    return None if unaware is None else Delay(unaware, aware)


def _units(text: str, unit: str) -> list[str]:
    return list("".join(text.split())) if unit == "char" else text.split()
