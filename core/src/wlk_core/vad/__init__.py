"""Voice activity detection: speech is passed on, silence is reported as events."""

from __future__ import annotations

from wlk_core.vad.detector import SileroDetector, SpeechDetector
from wlk_core.vad.gate import (
    GateEvent,
    GateParameters,
    SilenceEnded,
    SilenceGate,
    SilenceStarted,
    SpeechAudio,
    silence_gate,
)

__all__ = [
    "GateEvent",
    "GateParameters",
    "SilenceEnded",
    "SilenceGate",
    "SilenceStarted",
    "SileroDetector",
    "SpeechAudio",
    "SpeechDetector",
    "silence_gate",
]
