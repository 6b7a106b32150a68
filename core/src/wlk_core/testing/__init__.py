"""What tests of streams are written with: a scripted backend, signals and a driver (no pytest)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wlk_core.testing.coded_audio import (
        CELL_SAMPLES,
        CELL_SECONDS,
        CodedToken,
        encode,
        read_tokens,
        script_words,
    )
    from wlk_core.testing.digits import Clip, clip_names, connected_digits, load_clip
    from wlk_core.testing.driver import Record, StreamDriver
    from wlk_core.testing.scripted import DIGIT_WORDS, EngineFault, ScriptedBackend
    from wlk_core.testing.scripted_pieces import END_OF_TEXT_ID
    from wlk_core.testing.scripted_spec import SCRIPTED_SPEC
    from wlk_core.testing.signals import noise, partition, silence, tone

__all__ = [
    "CELL_SAMPLES",
    "CELL_SECONDS",
    "DIGIT_WORDS",
    "END_OF_TEXT_ID",
    "SCRIPTED_SPEC",
    "Clip",
    "CodedToken",
    "EngineFault",
    "Record",
    "ScriptedBackend",
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

_ROOMS = {
    "coded_audio": (
        "CELL_SAMPLES",
        "CELL_SECONDS",
        "CodedToken",
        "encode",
        "read_tokens",
        "script_words",
    ),
    "digits": ("Clip", "clip_names", "connected_digits", "load_clip"),
    "driver": ("Record", "StreamDriver"),
    "scripted": ("DIGIT_WORDS", "EngineFault", "ScriptedBackend"),
    "scripted_pieces": ("END_OF_TEXT_ID",),
    "scripted_spec": ("SCRIPTED_SPEC",),
    "signals": ("noise", "partition", "silence", "tone"),
}
_HOME = {name: f"wlk_core.testing.{room}" for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a name on first use: a plugin module may import scripted_spec without numpy."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
