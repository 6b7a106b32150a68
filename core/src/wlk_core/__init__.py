"""
Streaming speech recognition: one clock, one contract, backends as plugins.

Everything an application or a backend needs is importable from here.  Each name is loaded when it
is first touched, so that ``import wlk_core`` costs next to nothing and the command line stays as
quick as an interpreter.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wlk_core.audio.convert import to_float32
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
    from wlk_core.online import (
        AlignAttDecoder,
        AlignAttRecognizer,
        AlignedHypothesis,
        AlignedWord,
        DecoderCache,
        Hypothesis,
        LocalAgreementRecognizer,
        OnlineStream,
        Recognizer,
        Step,
        Transcriber,
        WorkCounters,
    )
    from wlk_core.options import Option
    from wlk_core.processor import (
        EPS,
        SAMPLE_RATE,
        OnlineProcessor,
        StreamStats,
        SupportsSpeakerTurns,
    )
    from wlk_core.registry import load_backend
    from wlk_core.segments import Segment
    from wlk_core.tokens import ASRToken, ChangeSpeaker, Emission, Silence, Transcript

__all__ = [
    "API_FLOOR",
    "API_VERSION",
    "EPS",
    "SAMPLE_RATE",
    "ASRToken",
    "AlignAttDecoder",
    "AlignAttRecognizer",
    "AlignedHypothesis",
    "AlignedWord",
    "AudioFormatError",
    "Backend",
    "BackendError",
    "BackendSpec",
    "BackendUnavailable",
    "ChangeSpeaker",
    "ClockError",
    "ConcurrentCallError",
    "DecoderCache",
    "Emission",
    "Hypothesis",
    "LocalAgreementRecognizer",
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
    "WorkCounters",
    "hookimpl",
    "load_backend",
    "to_float32",
]

_ROOMS = {
    "audio.convert": ("to_float32",),
    "backend": (
        "API_FLOOR",
        "API_VERSION",
        "Backend",
        "BackendSpec",
    ),
    "errors": (
        "AudioFormatError",
        "BackendError",
        "BackendUnavailable",
        "ClockError",
        "ConcurrentCallError",
        "ModelNotFoundError",
        "OptionError",
        "StreamBroken",
        "StreamClosed",
        "WLKError",
    ),
    "hookspecs": ("hookimpl",),
    "online": (
        "LocalAgreementRecognizer",
        "AlignedHypothesis",
        "AlignedWord",
        "AlignAttDecoder",
        "AlignAttRecognizer",
        "Hypothesis",
        "DecoderCache",
        "OnlineStream",
        "Recognizer",
        "Step",
        "Transcriber",
        "WorkCounters",
    ),
    "options": ("Option",),
    "processor": (
        "EPS",
        "SAMPLE_RATE",
        "OnlineProcessor",
        "StreamStats",
        "SupportsSpeakerTurns",
    ),
    "registry": ("load_backend",),
    "segments": ("Segment",),
    "tokens": (
        "ASRToken",
        "ChangeSpeaker",
        "Emission",
        "Silence",
        "Transcript",
    ),
}
_HOME = {name: f"wlk_core.{room}" for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name, or the version, on first use."""
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 -- costs 20 ms, rarely asked

        return version("wlk-core")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
