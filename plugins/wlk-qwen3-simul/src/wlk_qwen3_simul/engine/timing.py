"""Word times: attended frames, tightened to the speech around them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["word_times"]

HOP = 160  # samples of one loudness value: 10 ms
REACH = 80  # values before the first and after the last word that they may extend to: 0.8 s
TOKEN = 8  # values of one audio token
GAP = 5  # quiet values that separate two words: longer than most closures
QUIET_DB = 35.0  # this far below the loudest moment is quiet ...
QUIET_SHARE = 0.7  # ... or, in noise, this share of the way down to the quietest moments


def word_times(
    attended: Sequence[tuple[float, float]], audio: NDArray[np.float32], *, floor: float = 0.0
) -> tuple[tuple[float, float], ...]:
    """
    Return the start and end of words, in seconds from the start of *audio*.

    Attention locates a token within 0.1 s and does not locate its edges.  Two words are separated
    at the longest pause between their attended times, or at the quietest moment where there is no
    pause; the speech on either side is the word.  Audio of constant loudness keeps the attended
    times.

    Args:
        attended: seconds that the first and the last token of each word attend to.
        audio: float32[n] at 16 kHz.
        floor: seconds; no word begins before it.

    """
    if not attended:
        return ()
    level = _loudness(audio)
    count = len(level)
    if count == 0:
        return tuple((floor, floor) for _ in attended)
    marks = [
        (
            min(round(first * 100) + TOKEN // 2, count - 1),
            min(round(last * 100) + TOKEN // 2, count),
        )
        for first, last in attended
    ]
    quietest = float(np.percentile(level, 10))
    edges = [max(round(floor * 100), marks[0][0] - REACH, 0)]
    for (_, before), (after, _) in pairwise(marks):
        edges.append(_separator(level, before, after, quietest))
    edges.append(min(count, marks[-1][1] + REACH))
    times: list[tuple[float, float]] = []
    for index, (first, last) in enumerate(marks):
        left, right = edges[index], max(edges[index], edges[index + 1])
        start, stop = _speech(level[left:right], first - left, last - left, quietest)
        floor = max(floor, (left + start) / 100)
        times.append((floor, max(floor, (left + stop) / 100)))
    return tuple(times)


def _separator(level: NDArray[np.float64], before: int, after: int, quietest: float) -> int:
    """Return the value that separates a word attended at *before* from one at *after*."""
    if after - before < 2:  # noqa: PLR2004 -- no value lies between
        return max(0, (before + after) // 2)
    span = level[before:after]
    pauses = [run for run in _runs(~_is_loud(span, quietest)) if run[1] - run[0] >= GAP]
    if pauses:
        start, stop = max(pauses, key=lambda run: run[1] - run[0])
        return before + (start + stop) // 2
    width = min(GAP, len(span))
    smooth = np.convolve(span, np.ones(width) / width, mode="same")
    return before + int(smooth.argmin())


def _speech(span: NDArray[np.float64], first: int, last: int, quietest: float) -> tuple[int, int]:
    """Return where the speech in *span* begins before *first* and stops after *last*."""
    if len(span) == 0:
        return 0, 0
    first, last = min(max(first, 0), len(span)), min(max(last, 0), len(span))
    sounds = _merged(_runs(_is_loud(span, quietest)))
    near = [run for run in sounds if run[1] >= first - GAP and run[0] <= last + GAP]
    if not near:
        return max(0, first - TOKEN // 2), min(len(span), last + TOKEN // 2)
    return near[0][0], near[-1][1]


def _merged(runs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return *runs*, merged where less than a pause separates them."""
    merged: list[tuple[int, int]] = []
    for start, stop in runs:
        if merged and start - merged[-1][1] < 2 * GAP:
            merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
    return merged


def _is_loud(span: NDArray[np.float64], quietest: float) -> NDArray[np.bool_]:
    peak = float(span.max(initial=-np.inf))
    is_loud: NDArray[np.bool_] = span >= peak - min(
        QUIET_DB, QUIET_SHARE * max(0.0, peak - quietest)
    )
    return is_loud


def _runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the runs of true as (start, stop)."""
    steps = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(steps[::2], steps[1::2], strict=True)]


def _loudness(audio: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the loudness of every 10 ms in decibels; digital silence is -120."""
    whole = len(audio) // HOP * HOP
    power = np.square(audio[:whole].reshape(-1, HOP), dtype=np.float64).mean(axis=1)
    decibels: NDArray[np.float64] = 10 * np.log10(np.maximum(power, 1e-12))
    return decibels
