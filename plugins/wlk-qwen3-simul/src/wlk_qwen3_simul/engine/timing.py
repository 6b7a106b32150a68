"""Locate words in time: tighten the frames they attend to around the speech nearby."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from wlk_frameworks.features import background_level, loud_frames, loudness, true_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# In loudness frames of 10 ms.
REACH = 80  # how far the first word may extend back, and the last one forward
TOKEN = 8  # length of an audio token
GAP = 5  # shortest pause that separates two words: longer than most stop closures
FRAMES_PER_SECOND = 100


def word_times(
    attended: Sequence[tuple[float, float]], audio: NDArray[np.float32], *, floor: float = 0.0
) -> tuple[tuple[float, float], ...]:
    """
    Return the start and end of words, in seconds from the start of *audio*.

    Attention locates a token within 0.1 s, but not its edges.  Two words are separated at the
    longest pause between their attended times or, without a pause, at the quietest moment; a word
    is the speech between two such points.  In audio of constant loudness the attended times stay.

    Args:
        attended: seconds that the first and the last token of each word attend to.
        audio: float32[n] at 16 kHz.
        floor: seconds; no word begins before it.

    """
    if not attended:
        return ()
    level = loudness(audio)
    count = len(level)
    if count == 0:
        return tuple((floor, floor) for _ in attended)
    marks = [
        (
            min(round(first * FRAMES_PER_SECOND) + TOKEN // 2, count - 1),
            min(round(last * FRAMES_PER_SECOND) + TOKEN // 2, count),
        )
        for first, last in attended
    ]
    background = background_level(level)
    edges = [max(round(floor * FRAMES_PER_SECOND), marks[0][0] - REACH, 0)]
    for (_, before), (after, _) in pairwise(marks):
        edges.append(_separator(level, before, after, background))
    edges.append(min(count, marks[-1][1] + REACH))
    times: list[tuple[float, float]] = []
    for index, (first, last) in enumerate(marks):
        left, right = edges[index], max(edges[index], edges[index + 1])
        start, end = _speech(level[left:right], first - left, last - left, background)
        floor = max(floor, (left + start) / FRAMES_PER_SECOND)
        times.append((floor, max(floor, (left + end) / FRAMES_PER_SECOND)))
    return tuple(times)


def _separator(level: NDArray[np.float64], before: int, after: int, background: float) -> int:
    """Return the frame that separates a word attended at *before* from the next at *after*."""
    if after - before < 2:  # noqa: PLR2004 -- no frame lies between
        return max(0, (before + after) // 2)
    span = level[before:after]
    is_quiet = ~loud_frames(span, background=background)
    pauses = [(start, end) for start, end in true_runs(is_quiet) if end - start >= GAP]
    if pauses:
        start, end = max(pauses, key=lambda run: run[1] - run[0])
        return before + (start + end) // 2
    width = min(GAP, len(span))
    smooth = np.convolve(span, np.ones(width) / width, mode="same")
    return before + int(smooth.argmin())


def _speech(span: NDArray[np.float64], first: int, last: int, background: float) -> tuple[int, int]:
    """Return the start and end of the speech in *span* around frames *first* to *last*."""
    if len(span) == 0:
        return 0, 0
    first, last = min(max(first, 0), len(span)), min(max(last, 0), len(span))
    sounds = _merged(true_runs(loud_frames(span, background=background)))
    near = [run for run in sounds if run[1] >= first - GAP and run[0] <= last + GAP]
    if not near:
        return max(0, first - TOKEN // 2), min(len(span), last + TOKEN // 2)
    return near[0][0], near[-1][1]


def _merged(runs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge *runs* that are less than two GAPs apart."""
    merged: list[tuple[int, int]] = []
    for start, end in runs:
        if merged and start - merged[-1][1] < 2 * GAP:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged
