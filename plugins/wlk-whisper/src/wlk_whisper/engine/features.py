"""Log-mel features of a stretch of audio, padded to the encoder's window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wlk_whisper.engine.network import MEL_FRAMES_PER_ENCODER_FRAME

if TYPE_CHECKING:
    from faster_whisper.feature_extractor import FeatureExtractor
    from numpy.typing import NDArray

__all__ = [
    "SAMPLES_PER_ENCODER_FRAME",
    "SAMPLES_PER_MEL_FRAME",
    "WINDOW_MEL_FRAMES",
    "audio_encoder_frames",
    "log_mel",
    "window_mel_frames",
]

SAMPLES_PER_MEL_FRAME = 160  # HOP_LENGTH of openai/whisper: 100 mel frames a second
SAMPLES_PER_ENCODER_FRAME = SAMPLES_PER_MEL_FRAME * MEL_FRAMES_PER_ENCODER_FRAME  # 20 ms
WINDOW_MEL_FRAMES = 3000  # the 30 s that every Whisper was trained on
_BUCKET_MEL_FRAMES = 100  # fitted windows are whole seconds ...
_MARGIN_MEL_FRAMES = 50  # ... with at least half a second of silence after the audio
_MIN_MEL_FRAMES = 200  # the shortest fitted window


def window_mel_frames(samples: int, *, is_fitted: bool) -> int:
    """Return the mel frames to encode for *samples* of audio: 30 s, or as few as fit."""
    if not is_fitted:
        return WINDOW_MEL_FRAMES
    needed = -(-samples // SAMPLES_PER_MEL_FRAME) + _MARGIN_MEL_FRAMES
    buckets = -(-needed // _BUCKET_MEL_FRAMES)
    return min(WINDOW_MEL_FRAMES, max(_MIN_MEL_FRAMES, buckets * _BUCKET_MEL_FRAMES))


def audio_encoder_frames(samples: int) -> int:
    """Return how many encoder frames of a window contain *samples* of audio, at least one."""
    return max(1, -(-samples // SAMPLES_PER_MEL_FRAME) // MEL_FRAMES_PER_ENCODER_FRAME)


def log_mel(
    feature_extractor: FeatureExtractor, audio: NDArray[np.float32], mel_frames: int
) -> NDArray[np.float32]:
    """
    Return log-mel features float32[mels, mel_frames] of *audio* followed by silence.

    Raises:
        ValueError: the audio is longer than the window.

    """
    padded = np.zeros(mel_frames * SAMPLES_PER_MEL_FRAME, dtype=np.float32)
    if len(audio) > len(padded):
        raise ValueError(f"expected at most {len(padded)} samples of audio, got {len(audio)}")
    padded[: len(audio)] = audio
    features: NDArray[np.float32] = feature_extractor(padded, padding=0)
    return features[:, :mel_frames]
