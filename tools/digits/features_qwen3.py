"""Qwen3-ASR's log-mel features, and which audio each embedding of its encoder stands for."""

from __future__ import annotations

import math

from features import Features, mel_filters
import numpy as np
from numpy.typing import NDArray
from recordings import SAMPLE_RATE, Audio
from scipy import fft

__all__ = [
    "CHUNK_FRAMES",
    "MELS",
    "Spans",
    "count_tokens",
    "normalise",
    "raw_log_mel",
    "token_spans",
]

Spans = NDArray[np.float64]

MELS = 128
CHUNK_FRAMES = 100  # the encoder convolves every second of audio alone
CHUNK_TOKENS = 13  # embeddings of a full second; the last one stands for 40 ms, the others for 80
TOKEN_FRAMES = 8
FFT_SAMPLES = 400
HOP_SAMPLES = 160
SHORTEST_SAMPLES = FFT_SAMPLES // 2 + 1  # less cannot be mirrored at its ends
_WINDOW = np.hanning(FFT_SAMPLES + 1)[:-1].astype(np.float32)
_FILTERS = mel_filters(MELS)
_FLOOR = -10.0  # log10 of the least energy
_RANGE = 8.0  # decades below the loudest bin that are kept


def raw_log_mel(audio: Audio) -> Features:
    """
    Return float32[128, samples // 160]: log10 mel energies, not yet normalised.

    Args:
        audio: float32[samples] at 16 kHz, more than 200 samples of it.

    """
    padded = np.pad(audio, FFT_SAMPLES // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, FFT_SAMPLES)[::HOP_SAMPLES]
    spectrum = fft.rfft(frames[: len(audio) // HOP_SAMPLES] * _WINDOW, axis=1)
    energies = (spectrum.real**2 + spectrum.imag**2) @ _FILTERS.T
    return np.log10(np.maximum(energies, np.float32(10**_FLOOR))).T


def normalise(raw: Features, *, louder: float = 0.0) -> Features:
    """
    Return features as the encoder takes them: floored below the loudest bin, and scaled.

    Args:
        raw: log10 mel energies.
        louder: how many decades the loudest bin lay above those that are here: a stream remembers
            it when the audio around it is gone.

    """
    floor = raw.max() + np.float32(louder) - np.float32(_RANGE)
    return (np.maximum(raw, floor) + np.float32(4)) / np.float32(4)


def count_tokens(frames: int) -> int:
    """Return how many embeddings the encoder makes of a number of mel frames."""
    seconds, rest = divmod(frames, CHUNK_FRAMES)
    return seconds * CHUNK_TOKENS + math.ceil(rest / TOKEN_FRAMES)


def token_spans(frames: int) -> Spans:
    """Return float64[tokens, 2]: the seconds at which each embedding's audio starts and ends."""
    numbers = np.arange(count_tokens(frames))
    second, index = np.divmod(numbers, CHUNK_TOKENS)
    first = second * CHUNK_FRAMES + index * TOKEN_FRAMES
    last = np.minimum(np.minimum(first + TOKEN_FRAMES, (second + 1) * CHUNK_FRAMES), frames)
    return np.stack([first, last], axis=1) * HOP_SAMPLES / SAMPLE_RATE
