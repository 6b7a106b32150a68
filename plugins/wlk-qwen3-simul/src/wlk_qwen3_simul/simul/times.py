"""From where words were attended to, to where they begin and end."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["word_times"]

RATE = 16_000
HOP = 160  # samples: loudness is looked at every 10 ms
REACH = 80  # frames before the first and behind the last place that a word may take: 0.8 s
TOKEN = 8  # frames that a token stands for
GAP = 5  # frames without sound that part two words: longer than most closures
QUIET_DB = 35.0  # this far below the loudest moment there is no sound ...
QUIET_SHARE = 0.7  # ... or, in noise, this share of the way down to the quietest moments


def word_times(
    places: Sequence[tuple[float, float]], audio: NDArray[np.float32], *, floor: float = 0.0
) -> tuple[tuple[float, float], ...]:
    """
    Return where words begin and end, in seconds from the start of *audio*.

    Attention tells a place inside each token, give or take 0.1 s, and nothing of its edges.  Two
    words are parted at the longest pause between their places, or at the quietest moment where
    they run together; the sound that is left on either side is the word.  Audio without any change
    in loudness keeps the places of the model.

    Args:
        places: seconds, where the first and the last token of each word were heard.
        audio: float32[n] at 16 kHz.
        floor: seconds; nothing begins before it.

    """
    if not places:
        return ()
    level = _loudness(audio)
    count = len(level)
    if count == 0:
        return tuple((floor, floor) for _ in places)
    marks = [
        (
            min(round(first * 100) + TOKEN // 2, count - 1),
            min(round(last * 100) + TOKEN // 2, count),
        )
        for first, last in places
    ]
    quietest = float(np.percentile(level, 10))
    edges = [max(round(floor * 100), marks[0][0] - REACH, 0)]
    for (_, before), (after, _) in pairwise(marks):
        edges.append(_parting(level, before, after, quietest))
    edges.append(min(count, marks[-1][1] + REACH))
    times: list[tuple[float, float]] = []
    for number, (first, last) in enumerate(marks):
        left, right = edges[number], max(edges[number], edges[number + 1])
        begun, over = _sound(level[left:right], first - left, last - left, quietest)
        floor = max(floor, (left + begun) / 100)
        times.append((floor, max(floor, (left + over) / 100)))
    return tuple(times)


def _parting(level: NDArray[np.float64], before: int, after: int, quietest: float) -> int:
    """Return the frame that parts a word heard at *before* from one heard at *after*."""
    if after - before < 2:  # noqa: PLR2004 -- no frame lies between
        return max(0, (before + after) // 2)
    span = level[before:after]
    pauses = [run for run in _runs(~_is_loud(span, quietest)) if run[1] - run[0] >= GAP]
    if pauses:
        first, behind = max(pauses, key=lambda run: run[1] - run[0])
        return before + (first + behind) // 2
    width = min(GAP, len(span))
    smooth = np.convolve(span, np.ones(width) / width, mode="same")
    return before + int(smooth.argmin())


def _sound(span: NDArray[np.float64], first: int, last: int, quietest: float) -> tuple[int, int]:
    """Return where the sound in *span* begins before the frame *first* and ends behind *last*."""
    if len(span) == 0:
        return 0, 0
    first, last = min(max(first, 0), len(span)), min(max(last, 0), len(span))
    sounds = _joined(_runs(_is_loud(span, quietest)))
    near = [run for run in sounds if run[1] >= first - GAP and run[0] <= last + GAP]
    if not near:
        return max(0, first - TOKEN // 2), min(len(span), last + TOKEN // 2)
    return near[0][0], near[-1][1]


def _joined(runs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return *runs* with those put together that less than a pause parts."""
    joined: list[tuple[int, int]] = []
    for first, behind in runs:
        if joined and first - joined[-1][1] < 2 * GAP:
            joined[-1] = (joined[-1][0], behind)
        else:
            joined.append((first, behind))
    return joined


def _is_loud(span: NDArray[np.float64], quietest: float) -> NDArray[np.bool_]:
    peak = float(span.max(initial=-np.inf))
    is_loud: NDArray[np.bool_] = span >= peak - min(
        QUIET_DB, QUIET_SHARE * max(0.0, peak - quietest)
    )
    return is_loud


def _runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the runs of true as (first, behind)."""
    steps = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(steps[::2], steps[1::2], strict=True)]


def _loudness(audio: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the loudness of every 10 ms in decibels; digital silence is -120."""
    whole = len(audio) // HOP * HOP
    power = np.square(audio[:whole].reshape(-1, HOP), dtype=np.float64).mean(axis=1)
    decibels: NDArray[np.float64] = 10 * np.log10(np.maximum(power, 1e-12))
    return decibels
