"""Audio in the form of this project: mono float32 at 16 kHz, from any file or sample type."""

from __future__ import annotations

from wlk_core.audio.convert import to_float32, validate_audio
from wlk_core.audio.decode import audio_duration, decode_file, may_be_live
from wlk_core.audio.pcm import PcmConverter, Resampler, rechunk

__all__ = [
    "PcmConverter",
    "Resampler",
    "audio_duration",
    "decode_file",
    "may_be_live",
    "rechunk",
    "to_float32",
    "validate_audio",
]
