"""Log-mel frames of a growing run of audio, each computed once."""

from __future__ import annotations

from functools import cache
import math
from typing import TYPE_CHECKING

import numpy as np

from wlk_qwen3_simul.audio.frames import HOP

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LEAST_SAMPLES", "MelStream", "mel_filters", "normalised"]

SIZE = 400  # samples of one transform: 25 ms
HALF = SIZE // 2  # samples of a frame on either side of its middle
BINS = HALF + 1
HIGHEST = 8000.0  # hertz
CORNER, CORNER_MELS = 1000.0, 15.0  # hertz and mels up to which the scale is linear
STEP = math.log(6.4) / 27.0  # of the logarithm of the frequency, to one mel
LEAST_SAMPLES = 8000  # shorter audio is filled up with zeros, as the model was trained
FLOOR = 1e-10
RANGE = 8.0  # decades below the loudest bin that are told apart


@cache
def mel_filters(bands: int) -> NDArray[np.float32]:
    """
    Return float32[bands, 201]: triangles on Slaney's mel scale, each of the same area.

    The scale is linear to 1 kHz and logarithmic above (Slaney, Auditory Toolbox, 1998).
    """
    highest = CORNER_MELS + math.log(HIGHEST / CORNER) / STEP
    edges: NDArray[np.float64] = _hertz(np.linspace(0.0, highest, bands + 2))
    bins = np.linspace(0.0, HIGHEST, BINS)
    rising = (bins - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - bins) / np.diff(edges)[1:, None]
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    area = 2.0 / (edges[2:] - edges[:-2])
    filters: NDArray[np.float32] = (triangles * area[:, None]).astype(np.float32)
    return filters


def _hertz(mels: NDArray[np.float64]) -> NDArray[np.float64]:
    logarithmic = CORNER * np.exp((mels - CORNER_MELS) * STEP)
    hertz: NDArray[np.float64] = np.where(
        mels < CORNER_MELS, mels * CORNER / CORNER_MELS, logarithmic
    )
    return hertz


def normalised(raw: NDArray[np.float32], peak: float) -> NDArray[np.float32]:
    """Return raw log-mel frames as the encoder takes them, given the loudest bin of the run."""
    scaled = (np.maximum(raw, np.float32(peak - RANGE)) + 4.0) / 4.0
    return scaled.astype(np.float32, copy=False)


class MelStream:
    """
    The log10 mel power of a run, float32[bands, frames], before normalisation.

    Frame t is centred on sample 160 t and final once 160 t + 200 samples are there.  The last frame
    reaches beyond the audio, which is mirrored at its end as it is at its start: so at any moment
    the final frames and the provisional one are those of the whole run, computed at once.
    """

    def __init__(self, bands: int) -> None:
        self._filters = mel_filters(bands)
        self._window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(SIZE) / SIZE)
        self._samples = np.empty(0, dtype=np.float32)  # from sample number _first on
        self._first = 0
        self._raw = np.empty((bands, 0), dtype=np.float32)  # final frames, from _start on
        self.start = 0  #: number of the first frame held
        self.final = 0  #: frames that no later audio changes
        self.heard = 0  #: samples so far

    @property
    def nbytes(self) -> int:
        """Bytes of samples and frames held."""
        return self._samples.nbytes + self._raw.nbytes

    def push(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] and compute the frames that become final with it."""
        samples = np.concatenate([self._samples, audio])
        heard = self.heard + len(audio)
        final = max(self.final, (heard - HALF) // HOP + 1) if heard > HALF else self.final
        raw = self._raw
        if final > self.final:
            raw = np.concatenate([raw, self._frames(samples, self.final, final)], axis=1)
        # Of the samples only those that frames to come reach back to, and the mirror at the end.
        first = max(self._first, final * HOP - HALF - HOP)
        self._samples = samples[first - self._first :].copy()  # a view would hold all of them
        self._first, self.heard, self.final, self._raw = first, heard, final, raw

    def provisional(self) -> NDArray[np.float32]:
        """Return the frames behind the final ones, as if the run ended here."""
        samples = self._samples
        heard = self.heard
        if heard < LEAST_SAMPLES:
            samples = np.concatenate([samples, np.zeros(LEAST_SAMPLES - heard, np.float32)])
            heard = LEAST_SAMPLES
        mirrored = samples[-HALF - 1 : -1][::-1]
        behind = heard // HOP
        return self._frames(np.concatenate([samples, mirrored]), self.final, behind)

    def between(self, first: int, behind: int) -> NDArray[np.float32]:
        """Return final frames number *first* up to *behind*; they must be held."""
        return self._raw[:, first - self.start : behind - self.start]

    def drop(self, start: int) -> None:
        """Let go of the frames before number *start*."""
        if start > self.start:
            self._raw = self._raw[:, start - self.start :].copy()
            self.start = start

    def _frames(self, samples: NDArray[np.float32], first: int, behind: int) -> NDArray[np.float32]:
        """Return frames *first* up to *behind*; *samples* begin at number `_first`."""
        if behind <= first:
            return np.empty((len(self._filters), 0), dtype=np.float32)
        begin, end = first * HOP - HALF, (behind - 1) * HOP + HALF
        if begin < 0:  # only at the start of the run, where _first is 0
            samples = np.concatenate([samples[1 : 1 - begin][::-1], samples])
            begin, end = 0, end - begin
        else:
            begin, end = begin - self._first, end - self._first
        cut = np.lib.stride_tricks.sliding_window_view(samples[begin:end], SIZE)[::HOP]
        spectrum = np.fft.rfft(cut * self._window, axis=1)
        power = np.square(spectrum.real) + np.square(spectrum.imag)
        mel = power @ self._filters.T.astype(np.float64)
        raw: NDArray[np.float32] = np.log10(np.maximum(mel, FLOOR)).T.astype(np.float32)
        return raw
