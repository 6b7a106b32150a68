"""Online processors put together from parts: a stream around a recognizer."""

from __future__ import annotations

from wlk_core.online.agreement import AgreementRecognizer, Hypothesis, Transcriber
from wlk_core.online.attention import (
    Attended,
    AttendedWord,
    AttentionDecoder,
    AttentionRecognizer,
)
from wlk_core.online.kept import KeptState
from wlk_core.online.recognizer import Recognizer, Step, Work
from wlk_core.online.stream import OnlineStream

__all__ = [
    "AgreementRecognizer",
    "Attended",
    "AttendedWord",
    "AttentionDecoder",
    "AttentionRecognizer",
    "Hypothesis",
    "KeptState",
    "OnlineStream",
    "Recognizer",
    "Step",
    "Transcriber",
    "Work",
]
