"""Average lagging of a text with respect to its source: LAAL and YAAL of one segment."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["laal", "yaal"]


def laal(delays: Sequence[float], *, source_seconds: float, reference_length: int) -> float | None:
    """
    Return Length-Adaptive Average Lagging (https://arxiv.org/abs/2206.05807).

    *delays* are the emission times of the words in seconds from the start of the source.  LAAL is
    the mean of ``d[i] - i * X / max(|Y|, |Y*|)``, i from 0, over the words up to the first one at
    or after the end of the source.  It is None without words or source.
    """
    if not delays or source_seconds <= 0:
        return None
    if delays[0] > source_seconds:
        return delays[0]
    pace = source_seconds / max(len(delays), reference_length)
    total = 0.0
    for index, delay in enumerate(delays):
        total += delay - index * pace
        if delay >= source_seconds:
            return total / (index + 1)
    return total / len(delays)


def yaal(
    delays: Sequence[float],
    *,
    source_seconds: float,
    reference_length: int,
    recording_seconds: float | None = None,
) -> float | None:
    """
    Return Yet Another Average Lagging (https://arxiv.org/abs/2509.17349).

    It differs from `laal` in that only words emitted strictly before the end of the source count,
    because the others were not emitted simultaneously.  For a segment of a longer recording
    (LongYAAL), words after the segment count up to `recording_seconds`, the end of the recording
    from the start of the segment.  It is None where no word counts.
    """
    if not delays or source_seconds <= 0:
        return None
    limit = source_seconds if recording_seconds is None else recording_seconds
    pace = source_seconds / max(len(delays), reference_length)
    total, counted = 0.0, 0
    for index, delay in enumerate(delays):
        if delay >= limit:
            break
        total += delay - index * pace
        counted += 1
    return total / counted if counted else None
