"""What the encoder is given: a window of log-mel frames around a stretch of audio."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from faster_whisper.feature_extractor import FeatureExtractor
    from numpy.typing import NDArray

__all__ = ["SAMPLES_PER_FRAME", "WINDOW_FRAMES", "log_mel", "window_frames"]

SAMPLES_PER_FRAME = 160  # Whisper's hop: 100 mel frames a second
WINDOW_FRAMES = 3000  # the 30 s every Whisper was trained on
BUCKET_FRAMES = 100  # fitted windows are whole seconds ...
MARGIN_FRAMES = 50  # ... with at least half a second of silence behind the audio
MIN_FRAMES = 200  # the shortest fitted window


def window_frames(samples: int, *, is_fitted: bool) -> int:
    """Return how many mel frames to encode for *samples* of audio: 30 s, or as few as will do."""
    if not is_fitted:
        return WINDOW_FRAMES
    needed = -(-samples // SAMPLES_PER_FRAME) + MARGIN_FRAMES
    buckets = -(-needed // BUCKET_FRAMES)
    return min(WINDOW_FRAMES, max(MIN_FRAMES, buckets * BUCKET_FRAMES))


def log_mel(
    extractor: FeatureExtractor, audio: NDArray[np.float32], frames: int
) -> NDArray[np.float32]:
    """
    Return log-mel features float32[mels, frames] of *audio* with silence behind it.

    Raises:
        ValueError: the audio is longer than the frames; nothing is left out unheard.

    """
    padded = np.zeros(frames * SAMPLES_PER_FRAME, dtype=np.float32)
    if len(audio) > len(padded):
        raise ValueError(f"expected at most {len(padded)} samples of audio, got {len(audio)}")
    padded[: len(audio)] = audio
    features: NDArray[np.float32] = extractor(padded, padding=0)
    return features[:, :frames]
