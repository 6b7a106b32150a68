"""Tokens, segments and silences as the JSON that scripts rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wlk_core.segments import Segment
    from wlk_core.tokens import ASRToken, Silence, TranslatedText

__all__ = [
    "round_seconds",
    "segment_record",
    "silence_record",
    "token_record",
    "translation_record",
]


def token_record(token: ASRToken) -> dict[str, Any]:
    """Return a token's fields."""
    return {
        "start": round_seconds(token.start),
        "end": round_seconds(token.end),
        "text": token.text,
        "probability": None if token.probability is None else round(token.probability, 4),
        "speaker": token.speaker,
        "language": token.detected_language,
    }


def segment_record(segment: Segment) -> dict[str, Any]:
    """Return a caption's fields, with a translation if it has one."""
    record = {
        "start": round_seconds(segment.start),
        "end": round_seconds(segment.end),
        "text": segment.text,
        "speaker": segment.speaker,
    }
    translation = segment.translation
    return record if translation is None else record | {"translation": translation}


def translation_record(text: TranslatedText) -> dict[str, Any]:
    """Return a translation's fields."""
    times = {"start": round_seconds(text.start), "end": round_seconds(text.end)}
    return times | {"text": text.text, "language": text.language}


def silence_record(silence: Silence) -> dict[str, Any]:
    """Return a pause's fields."""
    return {"start": round_seconds(silence.start), "end": round_seconds(silence.end)}


def round_seconds(time: float) -> float:
    """Round a time to the tenth of a millisecond, because a sample lasts 62.5 microseconds."""
    return round(time, 4)
