"""Compute log-mel features, and choose how much of the 30 s window to encode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from wlk_whisper.engine.network import MEL_FRAMES_PER_ENCODER_FRAME

if TYPE_CHECKING:
    from faster_whisper.feature_extractor import FeatureExtractor
    from numpy.typing import NDArray

AudioContext = Literal["padded", "full", "fitted"]
"""
What the encoder runs on, and what the decoder attends to.

`full` is the window of Whisper's training: audio, then silence up to 30 s.  `padded` encodes the
audio and a second of silence, and appends frames of the encoder output of 30 s of silence, which is
computed once: a fraction of the encoder's work, and about half of the decoder's.  `fitted` appends
nothing, so the model must be trained on windows of any length.
"""

SAMPLES_PER_MEL_FRAME = 160  # HOP_LENGTH of openai/whisper: 100 mel frames a second
SAMPLES_PER_ENCODER_FRAME = SAMPLES_PER_MEL_FRAME * MEL_FRAMES_PER_ENCODER_FRAME  # 20 ms
WINDOW_MEL_FRAMES = 3000  # the 30 s that every Whisper was trained on
_BUCKET_MEL_FRAMES = 100  # fitted windows are whole seconds ...
_MARGIN_MEL_FRAMES = 50  # ... with at least half a second of silence after the audio
_MIN_MEL_FRAMES = 200  # the shortest fitted window
# Silence encoded after the audio of a padded window.  Of 913 words of tiny.en in 60 windows of 1 to
# 14 s, 161 differ from those of full windows with a margin of 0.5 s, 29 with 1 s, 30 with 2 s and
# 29 with 4 s.  The noise floor is 26: full windows of 15 s against those of 30 s.
_PADDED_MARGIN_MEL_FRAMES = 100
# Of the silence behind that the decoder attends to every 12th frame only.  In windows of a few
# seconds these are a third of the frames, and words are wrong as often; see docs/whisper.md.
SILENCE_STRIDE = 12
_SILENT_LOG_MEL = -1.5  # (log10(1e-10) + 4) / 4, the feature of zeros in openai/whisper


def window_mel_frames(samples: int, context: AudioContext) -> int:
    """Return how many mel frames to encode: 3000, or the fewest that *context* allows."""
    if context == "full":
        return WINDOW_MEL_FRAMES
    audio = -(-samples // SAMPLES_PER_MEL_FRAME)
    if context == "padded":
        stride = MEL_FRAMES_PER_ENCODER_FRAME
        frames = -(-(audio + _PADDED_MARGIN_MEL_FRAMES) // stride) * stride
        return min(WINDOW_MEL_FRAMES, frames)
    buckets = -(-(audio + _MARGIN_MEL_FRAMES) // _BUCKET_MEL_FRAMES)
    return min(WINDOW_MEL_FRAMES, max(_MIN_MEL_FRAMES, buckets * _BUCKET_MEL_FRAMES))


def silence_features(n_mels: int, mel_frames: int = WINDOW_MEL_FRAMES) -> NDArray[np.float32]:
    """Return the log-mel features float32[n_mels, mel_frames] of zeros."""
    return np.full((n_mels, mel_frames), _SILENT_LOG_MEL, dtype=np.float32)


def following_silence(frames: int, stride: int) -> slice:
    """
    Return which frames of the encoder output of 30 s of silence follow *frames* encoded ones.

    These are every *stride*-th frame, counted so that the last of the 30 s is among them.
    """
    return slice(frames + (stride - 1 - frames) % stride, None, stride)


def audio_encoder_frames(samples: int) -> int:
    """Return how many encoder frames of a window contain *samples* of audio, at least one."""
    return max(1, -(-samples // SAMPLES_PER_MEL_FRAME) // MEL_FRAMES_PER_ENCODER_FRAME)


def log_mel(
    feature_extractor: FeatureExtractor, audio: NDArray[np.float32], mel_frames: int
) -> NDArray[np.float32]:
    """Return log-mel features float32[mels, mel_frames] of *audio* followed by silence."""
    padded = np.zeros(mel_frames * SAMPLES_PER_MEL_FRAME, dtype=np.float32)
    padded[: len(audio)] = audio
    features: NDArray[np.float32] = feature_extractor(padded, padding=0)
    return features[:, :mel_frames]
