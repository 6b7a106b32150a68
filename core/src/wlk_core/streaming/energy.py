"""Where a word began, for models that tell only where it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["EnergyContour", "lowest_energy_sample"]

FRAME_SAMPLES = 160  # 10 ms
FRAME_SECONDS = 0.01
LONGEST_WORD = 120  # frames a word lasts at most
PEAK_FRAMES = 60  # before the end: the loudest moment of a word lies within
QUIET_DB = 35.0  # this far below its loudest moment a word is not heard ...
QUIET_SHARE = 0.7  # ... or, in noise, this share of the way down to the quietest moments
PAUSE_FRAMES = 9  # longer than the closures inside most words
_SILENCE_DB = -120.0


class EnergyContour:
    """
    The loudness of a run, 100 frames a second: what was appended, and `seconds` before now.

    Models with delayed streams encode the end of a word and not its start.  What is loud before
    the end, back to the first pause or to the end of the word before, is taken for the word.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._decibels: NDArray[np.float32] = np.zeros(0, dtype=np.float32)
        self._first = 0  # number of the first frame held

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._decibels.nbytes

    @property
    def samples(self) -> int:
        """How much audio of the run was appended."""
        return (self._first + len(self._decibels)) * FRAME_SAMPLES

    def append(self, audio: NDArray[np.float32]) -> None:
        """Take float32[160 n]."""
        frames = audio.reshape(-1, FRAME_SAMPLES).astype(np.float64)
        power = np.maximum(np.square(frames).mean(axis=1), 10 ** (_SILENCE_DB / 10))
        fresh = (10 * np.log10(power)).astype(np.float32)
        self._decibels = np.concatenate([self._decibels, fresh])

    def word_onset(self, end: float, *, after: float, now: float) -> float:
        """
        Return where the word began that ended at *end*; not before *after*, in seconds.

        *now* is when the word was complete: what was appended of later times, or lies longer ago
        than is kept, changes nothing, so the start does not depend on how much came at once.
        """
        behind = min(round(now / FRAME_SECONDS), self._first + len(self._decibels))
        oldest = max(round((now - self._seconds) / FRAME_SECONDS), self._first)
        last = min(round(end / FRAME_SECONDS), behind)
        first = max(round(after / FRAME_SECONDS), last - LONGEST_WORD, oldest)
        if first >= last:
            return min(after, end)
        span = self._frames(first, last)
        peak = float(span[-PEAK_FRAMES:].max())
        floor = float(np.percentile(self._frames(oldest, behind), 10))
        least = peak - min(QUIET_DB, QUIET_SHARE * max(0.0, peak - floor))
        loud = np.flatnonzero(span >= least)
        # Back from the last loud frame to the first pause.
        pauses = np.flatnonzero(np.diff(loud) > PAUSE_FRAMES)
        begin = first + int(loud[pauses[-1] + 1] if len(pauses) else loud[0])
        return min(max(after, begin * FRAME_SECONDS), end)

    def trim(self, now: float) -> None:
        """Let go of what a word that is complete at *now* or later does not need."""
        first = round((now - self._seconds) / FRAME_SECONDS)
        dropped = min(max(0, first - self._first), len(self._decibels))
        self._decibels = self._decibels[dropped:].copy()  # a view would keep the whole
        self._first += dropped

    def _frames(self, first: int, behind: int) -> NDArray[np.float32]:
        return self._decibels[first - self._first : behind - self._first]


def lowest_energy_sample(audio: NDArray[np.float32], *, window: int) -> int:
    """
    Return the middle of the *window* samples of *audio* with the least energy.

    The earliest such place wins; an *audio*, float32[n], shorter than the window gives its middle.
    """
    if len(audio) <= window:
        return len(audio) // 2
    energy = np.cumsum(np.square(audio, dtype=np.float64))
    energy = np.concatenate(([0.0], energy))
    return int(np.argmin(energy[window:] - energy[:-window])) + window // 2
