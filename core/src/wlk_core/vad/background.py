"""Compare frames of audio with the background before them, band by band."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Background"]

_LOWEST = 0.008  # of the sample rate: 125 Hz at 16 kHz, above mains hum and below most voices
_LEARNED_FRAMES = 50  # the background is their mean, 1.6 s
_SIGMAS = 7.0  # a frame of steady noise exceeds its mean by more in one of a million
_EFFECTIVE_BINS = 0.67  # of the bins, those that the Hann window leaves independent
_FLOOR = 1e-6  # of full scale: less is not sound in any recording of 16 bits


class Background:
    """
    The power of the background in octaves, learned from frames of `frame_samples` samples.

    Octaves are compared one by one, because a voice is below the level of hum or rumble long before
    it is below that of each octave.
    """

    def __init__(self, frame_samples: int) -> None:
        self._window = np.hanning(frame_samples).astype(np.float32)
        first = round(_LOWEST * frame_samples)
        bins = frame_samples // 2
        edges = [first]
        while edges[-1] * 2 < bins:
            edges.append(edges[-1] * 2)
        widths = np.diff([*edges, bins + 1])
        self._edges = np.array(edges)
        self._margins = 1 + _SIGMAS / np.sqrt(_EFFECTIVE_BINS * widths)
        self._floors = _FLOOR**2 * float(np.square(self._window).sum()) * widths
        self._silence = np.zeros(len(edges))
        self.clear()

    def clear(self) -> None:
        """Forget the background."""
        self._powers: NDArray[np.float64] | None = None
        self._learned = 0  # frames, up to _LEARNED_FRAMES

    def powers(self, frame: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the power of each octave of *frame*, float32[frame_samples]."""
        if not frame.any():
            return self._silence
        spectrum = np.fft.rfft(frame * self._window)
        power = np.square(spectrum.real) + np.square(spectrum.imag)
        octaves: NDArray[np.float64] = np.add.reduceat(power, self._edges)
        return octaves

    def contains(self, powers: NDArray[np.float64]) -> bool:
        """Return whether no octave of *powers* exceeds the background by more than chance."""
        if self._powers is None:
            return False
        return bool((powers <= self._powers * self._margins + self._floors).all())

    def learn(self, powers: NDArray[np.float64]) -> None:
        """Take *powers* of a frame without speech into the mean."""
        self._learned = min(self._learned + 1, _LEARNED_FRAMES)
        if self._powers is None:
            self._powers = powers.copy()
        else:
            self._powers += (powers - self._powers) / self._learned
