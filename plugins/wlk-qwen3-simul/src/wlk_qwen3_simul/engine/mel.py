"""Log-mel frames of a growing utterance, each computed once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wlk_frameworks.features import mel_filters
from wlk_qwen3_simul.engine.frames import HOP_SAMPLES, SECOND_MEL_FRAMES

if TYPE_CHECKING:
    from numpy.typing import NDArray

WINDOW_SAMPLES = 400  # samples of one transform: 25 ms
HALF = WINDOW_SAMPLES // 2  # samples of a frame on either side of its centre
MIN_SAMPLES = 8000  # shorter audio is padded with zeros, as in training
FLOOR = 1e-10  # smallest mel power, so that its logarithm is finite
DYNAMIC_RANGE = 8.0  # decades below the loudest bin at which the normalisation clips


def normalise(log_mel: NDArray[np.float32], peak: float) -> NDArray[np.float32]:
    """Normalise log-mel frames for the encoder; *peak* is the utterance's loudest bin."""
    scaled = (np.maximum(log_mel, np.float32(peak - DYNAMIC_RANGE)) + 4.0) / 4.0
    return scaled.astype(np.float32, copy=False)


def padded_second(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """
    Pad the frames of a second, or of its start, with zeros to float32[bands, 100].

    The convolutions read zeros after the last second, as they do in any longer audio.
    """
    bands, frames = features.shape
    padded = np.zeros((bands, SECOND_MEL_FRAMES), dtype=np.float32)
    padded[:, :frames] = features
    return padded


class MelStream:
    """
    The log10 mel power of an utterance, float32[bands, frames], before normalisation.

    Frame t is centred on sample 160 t and final once 160 t + 200 samples have arrived.  The last
    frame reaches past the audio, which is mirrored at its end as at its start.  So final and
    provisional frames together always equal those of the whole audio computed at once.
    """

    def __init__(self, bands: int) -> None:
        # The model was trained with filters rounded to float32; sums are computed in float64.
        self._filters = mel_filters(bands).astype(np.float32).astype(np.float64)
        positions = np.arange(WINDOW_SAMPLES) / WINDOW_SAMPLES
        self._window = 0.5 - 0.5 * np.cos(2 * np.pi * positions)
        self._samples = np.empty(0, dtype=np.float32)  # from sample number _first on
        self._first = 0
        self._log_mel = np.empty((bands, 0), dtype=np.float32)  # final frames, from start on
        self.start = 0  #: number of the first frame held
        self.final = 0  #: number of frames that no later audio changes
        self.received = 0  #: number of samples pushed

    @property
    def nbytes(self) -> int:
        """Bytes of samples and frames held."""
        return self._samples.nbytes + self._log_mel.nbytes

    def push(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] and compute the frames that become final with it."""
        samples = np.concatenate([self._samples, audio])
        received = self.received + len(audio)
        final = max(self.final, (received - HALF) // HOP_SAMPLES + 1) if received > HALF else 0
        log_mel = self._log_mel
        if final > self.final:
            log_mel = np.concatenate([log_mel, self._frames(samples, self.final, final)], axis=1)
        # Later frames and the mirroring at the end reach back to these samples, and no farther.
        first = max(self._first, final * HOP_SAMPLES - HALF - HOP_SAMPLES)
        self._samples = samples[first - self._first :].copy()  # a view would keep all of them
        self._first, self.received, self.final, self._log_mel = first, received, final, log_mel

    def provisional(self) -> NDArray[np.float32]:
        """Return the frames after the final ones, as if the utterance ended here."""
        samples = self._samples
        received = self.received
        if received < MIN_SAMPLES:
            samples = np.concatenate([samples, np.zeros(MIN_SAMPLES - received, np.float32)])
            received = MIN_SAMPLES
        mirrored = samples[-HALF - 1 : -1][::-1]
        end = received // HOP_SAMPLES
        return self._frames(np.concatenate([samples, mirrored]), self.final, end)

    def between(self, first: int, end: int) -> NDArray[np.float32]:
        """Return the final frames from number *first* to *end*; they must be held."""
        return self._log_mel[:, first - self.start : end - self.start]

    def drop(self, start: int) -> None:
        """Drop the frames before number *start*."""
        if start > self.start:
            self._log_mel = self._log_mel[:, start - self.start :].copy()
            self.start = start

    def _frames(
        self, samples: NDArray[np.float32], first: int, end_frame: int
    ) -> NDArray[np.float32]:
        """Return the frames from *first* to *end_frame*; *samples* begin at number `_first`."""
        if end_frame <= first:
            return np.empty((self._filters.shape[1], 0), dtype=np.float32)
        begin, end = first * HOP_SAMPLES - HALF, (end_frame - 1) * HOP_SAMPLES + HALF
        if begin < 0:  # only at the start of the utterance, where _first is 0
            samples = np.concatenate([samples[1 : 1 - begin][::-1], samples])
            begin, end = 0, end - begin
        else:
            begin, end = begin - self._first, end - self._first
        audio = samples[begin:end]
        cut = np.lib.stride_tricks.sliding_window_view(audio, WINDOW_SAMPLES)[::HOP_SAMPLES]
        spectrum = np.fft.rfft(cut * self._window, axis=1)
        power = np.square(spectrum.real) + np.square(spectrum.imag)
        mel = power @ self._filters
        log_mel: NDArray[np.float32] = np.log10(np.maximum(mel, FLOOR)).T.astype(np.float32)
        return log_mel
