"""Decode any file or sample type to what every stream takes: mono float32 at 16 kHz."""

from __future__ import annotations

from wlk_live.audio.decode import audio_duration as audio_duration
from wlk_live.audio.decode import channel_count as channel_count
from wlk_live.audio.decode import decode_file as decode_file
from wlk_live.audio.decode import may_be_live as may_be_live
from wlk_live.audio.pcm import PcmReader as PcmReader
from wlk_live.audio.pcm import Resampler as Resampler
from wlk_live.audio.pcm import is_recording as is_recording
from wlk_live.audio.pcm import rechunk as rechunk
from wlk_live.audio.pcm import sample_bytes as sample_bytes
from wlk_live.audio.pcm import wave_header as wave_header
