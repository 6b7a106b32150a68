"""Qwen3-ASR's log-mel features, and which audio each embedding of its encoder stands for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import features
import numpy as np
from numpy.typing import NDArray

from wlk_frameworks.features import mel_filters

if TYPE_CHECKING:
    from features import Features
    from recordings import Audio

Spans = NDArray[np.float64]

MELS = 128
CHUNK_FRAMES = 100  # the encoder convolves each second of audio separately
CHUNK_TOKENS = 13  # embeddings of a full second; the last one stands for 40 ms, the others for 80
TOKEN_FRAMES = 8
_FILTERS = mel_filters(MELS).astype(np.float32)
_RANGE = 8.0  # decades below the loudest bin that are kept


def raw_log_mel(audio: Audio) -> Features:
    """Return float32[128, samples // 160] of float32[samples]: not yet normalised features."""
    return features.raw_log_mel(audio, _FILTERS)


def normalise(raw: Features, *, louder: float = 0.0) -> Features:
    """
    Return features as the encoder takes them: floored below the loudest bin, and scaled.

    Args:
        raw: log10 mel energies.
        louder: decades by which the loudest bin of the stream lies above those given; a stream
            remembers that bin after its audio is gone.

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
    return np.stack([first, last], axis=1) / CHUNK_FRAMES
