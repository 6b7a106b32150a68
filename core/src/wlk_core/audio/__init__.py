"""Convert any file or sample type to what every stream takes: mono float32 at 16 kHz."""

from __future__ import annotations

from wlk_core.audio.convert import to_float32 as to_float32
from wlk_core.audio.convert import validate_audio as validate_audio
from wlk_core.audio.decode import audio_duration as audio_duration
from wlk_core.audio.decode import decode_file as decode_file
from wlk_core.audio.decode import may_be_live as may_be_live
from wlk_core.audio.pcm import PcmConverter as PcmConverter
from wlk_core.audio.pcm import Resampler as Resampler
from wlk_core.audio.pcm import rechunk as rechunk
