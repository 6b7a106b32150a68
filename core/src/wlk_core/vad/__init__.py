"""Telling speech from silence, so that models hear the one and are told of the other."""

from __future__ import annotations

from wlk_core.vad.detector import SileroDetector, SpeechDetector
from wlk_core.vad.gate import GateEvent, SilenceEnded, SilenceGate, SilenceStarted, SpeechAudio

__all__ = [
    "GateEvent",
    "SilenceEnded",
    "SilenceGate",
    "SilenceStarted",
    "SileroDetector",
    "SpeechAudio",
    "SpeechDetector",
]
