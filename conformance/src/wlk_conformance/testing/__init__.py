"""Parts for tests of streams: a driver, signals, coded audio and clips of digits (no pytest)."""

from __future__ import annotations

from wlk_conformance.testing.coded_audio import (
    CELL_SAMPLES,
    CELL_SECONDS,
    CodedToken,
    encode,
    read_tokens,
    script_words,
)
from wlk_conformance.testing.digits import Clip, clip_names, connected_digits, load_clip
from wlk_conformance.testing.driver import Record, StreamDriver
from wlk_conformance.testing.signals import noise, partition, silence, tone

__all__ = [
    "CELL_SAMPLES",
    "CELL_SECONDS",
    "Clip",
    "CodedToken",
    "Record",
    "StreamDriver",
    "clip_names",
    "connected_digits",
    "encode",
    "load_clip",
    "noise",
    "partition",
    "read_tokens",
    "script_words",
    "silence",
    "tone",
]
