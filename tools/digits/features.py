"""Whisper's log-mel features, and how training disturbs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rng import happens
from scipy import fft

from wlk_frameworks.features import mel_filters

if TYPE_CHECKING:
    from recordings import Audio

Features = NDArray[np.float32]

MELS = 80
_FLOOR = -10.0  # log10 of the lowest energy
_FFT_SAMPLES = 400
_HOP_SAMPLES = 160
_KNOTS = 5  # knots of the curve that moves the bands
_TILTS = (0.28, 0.2, 0.14, 0.09, 0.06)  # deviations in a cosine series over bands, in decades
_WINDOW = np.hanning(_FFT_SAMPLES + 1)[:-1].astype(np.float32)
_FILTERS = mel_filters(MELS).astype(np.float32)


def log_mel(audio: Audio) -> Features:
    """Return Whisper's features of *audio* before they are normalised, a frame every 10 ms."""
    return raw_log_mel(np.pad(audio, (0, _HOP_SAMPLES)), _FILTERS)


def raw_log_mel(audio: Audio, filters: NDArray[np.float32]) -> Features:
    """
    Return float32[bands, samples // 160]: log10 mel energies, floored at 1e-10.

    Args:
        audio: float32[samples] at 16 kHz, more than the 200 samples that are mirrored at its ends.
        filters: float32[201, bands].

    """
    padded = np.pad(audio, _FFT_SAMPLES // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, _FFT_SAMPLES)[::_HOP_SAMPLES]
    spectrum = fft.rfft(frames[: len(audio) // _HOP_SAMPLES] * _WINDOW, axis=1)
    energies = (spectrum.real**2 + spectrum.imag**2) @ filters
    return np.log10(np.maximum(energies, np.float32(10**_FLOOR))).T


def disturb(features: Features, rng: np.random.Generator) -> Features:
    """Shift formants and tilt the spectrum: another vocal tract, another microphone."""
    bands = len(features)
    if happens(0.8, rng):
        knots = np.linspace(0, bands - 1, _KNOTS)  # each formant also moves a little by itself
        moved = knots * (1 + rng.uniform(-0.15, 0.15) + rng.normal(0, 0.03, _KNOTS))
        bins = np.clip(np.interp(np.arange(bands), knots, moved), 0, bands - 1.001)
        low = bins.astype(int)
        share = (bins - low)[:, None].astype(np.float32)
        features = features[low] * (1 - share) + features[low + 1] * share
    angles = np.arange(bands) / bands * np.pi
    tilt = sum(rng.normal(0, size) * np.cos(k * angles) for k, size in enumerate(_TILTS, start=1))
    features = np.where(features > _FLOOR + 0.1, features + tilt[:, None], features).astype(
        np.float32
    )
    if happens(0.2, rng):
        first = rng.integers(0, bands - 8)
        features[first : first + rng.integers(1, 9)] = features.min()
    return features


def fit(features: Features, frames: int, *, zero_padded: bool) -> Features:
    """Normalise as Whisper does and pad to a window.

    Args:
        features: log10 mel energies.
        frames: length of the window.
        zero_padded: pad the features with 0.0 as faster-whisper does; else as if the audio had been
            padded with silence, as the other implementations do.
    """
    floor = np.maximum(features.max(), np.float32(_FLOOR)) - np.float32(8.0)
    scaled = (np.maximum(features, floor) + 4.0) / 4.0
    fitted = np.full(
        (MELS, frames), 0.0 if zero_padded else (max(floor, _FLOOR) + 4.0) / 4.0, np.float32
    )
    length = min(scaled.shape[1], frames)
    fitted[:, :length] = scaled[:, :length]
    return fitted
