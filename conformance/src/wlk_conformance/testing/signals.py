"""Reproducible signals without speech, in which a backend must not find words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


def silence(seconds: float) -> NDArray[np.float32]:
    """Return float32[n] zeros."""
    return np.zeros(round(seconds * SAMPLE_RATE), dtype=np.float32)


def noise(seconds: float, *, level: float = 0.01, seed: int = 0) -> NDArray[np.float32]:
    """Return float32[n] white noise of standard deviation *level*, the same for the same seed."""
    samples = np.random.default_rng(seed).standard_normal(round(seconds * SAMPLE_RATE))
    return np.clip(samples * level, -1.0, 1.0).astype(np.float32)


def tone(seconds: float, *, hertz: float = 440.0, level: float = 0.1) -> NDArray[np.float32]:
    """Return float32[n] of a sine wave with amplitude *level*."""
    times = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    return (level * np.sin(2 * np.pi * hertz * times)).astype(np.float32)


def partition(audio: NDArray[np.float32], chunk_seconds: float) -> Iterator[NDArray[np.float32]]:
    """Cut *audio* into chunks of `chunk_seconds` (at least one sample), the last one shorter."""
    step = max(1, round(chunk_seconds * SAMPLE_RATE))
    return (audio[first : first + step] for first in range(0, len(audio), step))
