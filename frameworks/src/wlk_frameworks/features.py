"""
Features of audio: its loudness, the edges of words, and log-mel frames.

Models time a word to within 0.1 to 0.4 s.  The edges of the sound around that time are exact, so
plugins move word times to them.  All plugins use the thresholds below, in frames of 10 ms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from numpy.typing import NDArray

FRAME_SAMPLES = 160  # 10 ms at 16 kHz, also the hop between mel frames
WINDOW_SAMPLES = 400  # 25 ms at 16 kHz, the window that Whisper introduced
FRAME_SECONDS = 0.01
QUIET_DB = 35.0  # sound this far below the loudest moment of a word does not belong to it ...
QUIET_SHARE = 0.7  # ... or, in noise, sound this share of the way down to the background
SILENCE_DB = -120.0  # digital silence
BACKGROUND_PERCENTILE = 10  # of all frames: below speech, above single empty frames
MAX_WORD = 120  # frames in the longest word
PEAK_FRAMES = 60  # the loudest moment of a word lies within this many frames before its end
PAUSE_FRAMES = 9  # longer than the closures inside most words
_LEAST = 1e-10  # energy that counts as silence
_RANGE = 8.0  # decades below the ceiling; everything quieter is raised to that floor
_LINEAR_MELS = 15  # 1000 Hz: the Slaney scale is linear below and logarithmic above
_MAX_MEL = 45.245640471924965  # 8000 Hz on the Slaney scale
_LOG_STEP = np.log(6.4) / 27  # of the logarithmic part
_WINDOW = np.hanning(WINDOW_SAMPLES + 1)[:-1]


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
    """Return which frames are speech, relative to the loudest of *decibels*."""
    if len(decibels) == 0:
        return np.zeros(0, dtype=np.bool_)
    is_loud: NDArray[np.bool_] = decibels >= _speech_threshold(
        peak=float(decibels.max()), background=background
    )
    return is_loud


def true_runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return every run of true in *flags* as (first, end)."""
    edges = np.flatnonzero(np.diff(flags, prepend=False, append=False)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


class EnergyContour:
    """
    The loudness of the newest *seconds* of a growing utterance.

    It supplies word starts for models that emit only word ends.  A word begins after the last
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

        *now* is when the word was complete.  Frames after *now* and frames too old for the contour
        are ignored, because the start must not depend on how much audio arrived at once.
        """
        end_frame = min(round(now / FRAME_SECONDS), self._first + len(self._decibels))
        oldest = max(round((now - self._seconds) / FRAME_SECONDS), self._first)
        last = min(round(end / FRAME_SECONDS), end_frame)
        first = max(round(after / FRAME_SECONDS), last - MAX_WORD, oldest)
        if first >= last:
            return min(after, end)
        span = self._frames(first, last)
        threshold = _speech_threshold(
            peak=float(span[-PEAK_FRAMES:].max()),
            background=background_level(self._frames(oldest, end_frame)),
        )
        loud = np.flatnonzero(span >= threshold)
        # Back from the last loud frame to the first pause.
        pauses = np.flatnonzero(np.diff(loud) > PAUSE_FRAMES)
        onset = first + int(loud[pauses[-1] + 1] if len(pauses) else loud[0])
        return min(max(after, onset * FRAME_SECONDS), end)

    def trim(self, now: float) -> None:
        """Drop the frames that no word completed at *now* or later needs."""
        first = round((now - self._seconds) / FRAME_SECONDS)
        dropped = min(max(0, first - self._first), len(self._decibels))
        self._decibels = self._decibels[dropped:].copy()  # a view would keep the whole
        self._first += dropped

    def _frames(self, first: int, end: int) -> NDArray[np.float32]:
        return self._decibels[first - self._first : end - self._first]


def mel_filters(mels: int) -> NDArray[np.float64]:
    """
    Return float64[201, *mels*]: triangles on the Slaney scale from 0 to 8000 Hz, of equal area.

    This is the bank of librosa and of every Whisper implementation (Slaney, "Auditory Toolbox",
    1998).  It is float64, because some models were trained with these values and others with the
    values rounded to float32; the caller casts.
    """
    edges = np.linspace(0.0, _MAX_MEL, mels + 2)
    hertz = np.where(
        edges >= _LINEAR_MELS,
        1000 * np.exp(_LOG_STEP * (edges - _LINEAR_MELS)),
        edges * 200 / 3,
    )
    bins = np.fft.rfftfreq(WINDOW_SAMPLES, 1 / SAMPLE_RATE)
    slopes = hertz[:, None] - bins[None, :]
    widths = np.diff(hertz)[:, None]
    triangles = np.maximum(0, np.minimum(-slopes[:-2] / widths[:-1], slopes[2:] / widths[1:]))
    bank: NDArray[np.float64] = (triangles * (2 / (hertz[2:] - hertz[:-2]))[:, None]).T
    return bank


@attrs.frozen(kw_only=True, eq=False)
class LogMel:
    """Log-mel features under a fixed ceiling, scaled as Whisper scales them."""

    mels: int = 128
    # The log10 energy of the loudest moment.  It is a constant of the model (1.5 in
    # arXiv:2602.11298), because a stream cannot wait for its loudest moment.
    ceiling: float = 1.5
    _filters: NDArray[np.float64] = attrs.field(init=False, repr=False)

    @_filters.default
    def _bank(self) -> NDArray[np.float64]:
        return mel_filters(self.mels)

    def __call__(self, audio: NDArray[np.float32]) -> NDArray[np.float32]:
        """
        Return float32[frames, mels] for float32[n]: one mel frame for every window that fits.

        Frame *i* covers samples ``160 i`` to ``160 i + 400``; nothing is padded.
        """
        if len(audio) < WINDOW_SAMPLES:
            return np.zeros((0, self.mels), dtype=np.float32)
        # Sums are in float64, so that a frame does not depend on which others are computed with it.
        windows = np.lib.stride_tricks.sliding_window_view(audio, WINDOW_SAMPLES)[::FRAME_SAMPLES]
        spectrum = np.fft.rfft(windows.astype(np.float64) * _WINDOW, axis=1)
        energy = (spectrum.real**2 + spectrum.imag**2) @ self._filters
        decades = np.maximum(np.log10(np.maximum(energy, _LEAST)), self.ceiling - _RANGE)
        frames: NDArray[np.float32] = ((decades + 4.0) / 4.0).astype(np.float32)
        return frames
