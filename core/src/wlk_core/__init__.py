"""
Streaming speech recognition: one clock, one contract, backends as plugins.

Everything an application or a backend needs is importable from here; heavy parts are loaded when
they are first touched, so that ``import wlk_core`` stays as light as the command line.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from wlk_core.backend import API_FLOOR, API_VERSION, Backend, BackendSpec
from wlk_core.errors import (
    AudioFormatError,
    BackendError,
    BackendUnavailable,
    ClockError,
    ConcurrentCallError,
    ModelNotFoundError,
    OptionError,
    StreamBroken,
    StreamClosed,
    WLKError,
)
from wlk_core.hookspecs import hookimpl
from wlk_core.options import Option
from wlk_core.processor import (
    EPS,
    SAMPLE_RATE,
    OnlineProcessor,
    StreamStats,
    SupportsSpeakerTurns,
)
from wlk_core.segments import Segment
from wlk_core.tokens import ASRToken, ChangeSpeaker, Emission, Silence, Transcript

if TYPE_CHECKING:
    from wlk_core.audio.convert import to_float32
    from wlk_core.online import (
        AgreementRecognizer,
        Hypothesis,
        OnlineStream,
        Recognizer,
        Step,
        Transcriber,
        Work,
    )
    from wlk_core.registry import load_backend

__all__ = [
    "API_FLOOR",
    "API_VERSION",
    "EPS",
    "SAMPLE_RATE",
    "ASRToken",
    "AgreementRecognizer",
    "AudioFormatError",
    "Backend",
    "BackendError",
    "BackendSpec",
    "BackendUnavailable",
    "ChangeSpeaker",
    "ClockError",
    "ConcurrentCallError",
    "Emission",
    "Hypothesis",
    "ModelNotFoundError",
    "OnlineProcessor",
    "OnlineStream",
    "Option",
    "OptionError",
    "Recognizer",
    "Segment",
    "Silence",
    "Step",
    "StreamBroken",
    "StreamClosed",
    "StreamStats",
    "SupportsSpeakerTurns",
    "Transcriber",
    "Transcript",
    "WLKError",
    "Work",
    "hookimpl",
    "load_backend",
    "to_float32",
]

# Loaded on first touch: these bring numpy or scan the installed distributions.
_LAZY = {
    "AgreementRecognizer": "wlk_core.online",
    "Hypothesis": "wlk_core.online",
    "OnlineStream": "wlk_core.online",
    "Recognizer": "wlk_core.online",
    "Step": "wlk_core.online",
    "Transcriber": "wlk_core.online",
    "Work": "wlk_core.online",
    "load_backend": "wlk_core.registry",
    "to_float32": "wlk_core.audio.convert",
}


def __getattr__(name: str) -> Any:
    """Load a heavy public name, or the version, on first use."""
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 -- costs 20 ms, rarely asked

        return version("wlk-core")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
