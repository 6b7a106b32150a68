"""Online processors put together from parts: a stream around a recognizer."""

from __future__ import annotations

from wlk_core.online.alignatt import (
    AlignAttDecoder,
    AlignAttRecognizer,
    AlignedHypothesis,
    AlignedWord,
    DecoderCache,
)
from wlk_core.online.local_agreement import Hypothesis, LocalAgreementRecognizer, Transcriber
from wlk_core.online.long_form import LongFormRecognizer
from wlk_core.online.recognizer import Recognizer, Step
from wlk_core.online.stream import OnlineStream
from wlk_core.processor import WorkCounters

__all__ = [
    "AlignAttDecoder",
    "AlignAttRecognizer",
    "AlignedHypothesis",
    "AlignedWord",
    "DecoderCache",
    "Hypothesis",
    "LocalAgreementRecognizer",
    "LongFormRecognizer",
    "OnlineStream",
    "Recognizer",
    "Step",
    "Transcriber",
    "WorkCounters",
]
