"""Online processors put together from parts: a stream around a recognizer."""

from __future__ import annotations

from wlk_core.online.agreement import AgreementRecognizer, Hypothesis, Transcriber
from wlk_core.online.attention import (
    Attended,
    AttendedWord,
    AttentionDecoder,
    AttentionRecognizer,
)
from wlk_core.online.delayed import DelayedRecognizer, StepDecoder, StepState, silent_cells
from wlk_core.online.kept import KeptState
from wlk_core.online.recognizer import Recognizer, Step, Work
from wlk_core.online.stream import OnlineStream

__all__ = [
    "AgreementRecognizer",
    "Attended",
    "AttendedWord",
    "AttentionDecoder",
    "AttentionRecognizer",
    "DelayedRecognizer",
    "Hypothesis",
    "KeptState",
    "OnlineStream",
    "Recognizer",
    "Step",
    "StepDecoder",
    "StepState",
    "Transcriber",
    "Work",
    "silent_cells",
]
