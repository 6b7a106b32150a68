"""
Locate word onsets and pauses by the loudness of the audio.

Models place a word to within 0.1 to 0.4 s.  The edges of the sound around that time are exact, so
plugins move word times to them.  All of them use the thresholds below, in frames of 10 ms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FRAME_SAMPLES = 160  # 10 ms at 16 kHz
FRAME_SECONDS = 0.01
QUIET_DB = 35.0  # sound this far below the loudest moment of a word does not belong to it ...
QUIET_SHARE = 0.7  # ... or, in noise, sound this share of the way down to the background
SILENCE_DB = -120.0  # digital silence
BACKGROUND_PERCENTILE = 10  # of all frames: below speech, above single empty frames
MAX_WORD = 120  # frames that a word lasts
PEAK_FRAMES = 60  # the loudest moment of a word lies within this many frames before its end
PAUSE_FRAMES = 9  # longer than the closures inside most words


def loudness(audio: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the level of every whole frame of float32[n] in decibels, SILENCE_DB or more."""
    whole = len(audio) // FRAME_SAMPLES * FRAME_SAMPLES
    power = np.square(audio[:whole].reshape(-1, FRAME_SAMPLES), dtype=np.float64).mean(axis=1)
    decibels: NDArray[np.float64] = 10 * np.log10(np.maximum(power, 10 ** (SILENCE_DB / 10)))
    return decibels


def background_level(decibels: NDArray[np.floating]) -> float:
    """Return the background level of *decibels*, which must not be empty."""
    return float(np.percentile(decibels, BACKGROUND_PERCENTILE))


def _speech_threshold(*, peak: float, background: float) -> float:
    """Return the level above which sound belongs to a word whose loudest moment is *peak*."""
    return peak - min(QUIET_DB, QUIET_SHARE * max(0.0, peak - background))


def loud_frames(decibels: NDArray[np.floating], *, background: float) -> NDArray[np.bool_]:
    """Return which frames are speech, measured against the loudest of these frames."""
    if len(decibels) == 0:
        return np.zeros(0, dtype=np.bool_)
    is_loud: NDArray[np.bool_] = decibels >= _speech_threshold(
        peak=float(decibels.max()), background=background
    )
    return is_loud


def true_runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return every run of true in *flags* as (first, stop)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


class EnergyContour:
    """
    The loudness of the newest *seconds* of a growing utterance.

    It supplies word starts for models that emit word ends only.  A word begins after the last
    pause before its end, or at the end of the word before.
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
        """The number of samples appended."""
        return (self._first + len(self._decibels)) * FRAME_SAMPLES

    def append(self, audio: NDArray[np.float32]) -> None:
        """Append float32[160 n], whole frames."""
        self._decibels = np.concatenate([self._decibels, loudness(audio).astype(np.float32)])

    def word_onset(self, end: float, *, after: float, now: float) -> float:
        """
        Return the start in seconds, *after* or later, of the word that ends at *end*.

        *now* is when the word was complete.  Frames after *now* change nothing, nor do frames too
        old for the contour, because the start must not depend on how much audio arrived at once.
        """
        stop = min(round(now / FRAME_SECONDS), self._first + len(self._decibels))
        oldest = max(round((now - self._seconds) / FRAME_SECONDS), self._first)
        last = min(round(end / FRAME_SECONDS), stop)
        first = max(round(after / FRAME_SECONDS), last - MAX_WORD, oldest)
        if first >= last:
            return min(after, end)
        span = self._frames(first, last)
        threshold = _speech_threshold(
            peak=float(span[-PEAK_FRAMES:].max()),
            background=background_level(self._frames(oldest, stop)),
        )
        loud = np.flatnonzero(span >= threshold)
        # Back from the last loud frame to the first pause.
        pauses = np.flatnonzero(np.diff(loud) > PAUSE_FRAMES)
        onset = first + int(loud[pauses[-1] + 1] if len(pauses) else loud[0])
        return min(max(after, onset * FRAME_SECONDS), end)

    def trim(self, now: float) -> None:
        """Drop the frames that no word complete at *now* or later needs."""
        first = round((now - self._seconds) / FRAME_SECONDS)
        dropped = min(max(0, first - self._first), len(self._decibels))
        self._decibels = self._decibels[dropped:].copy()  # a view would keep the whole
        self._first += dropped

    def _frames(self, first: int, stop: int) -> NDArray[np.float32]:
        return self._decibels[first - self._first : stop - self._first]
