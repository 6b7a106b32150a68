"""Timed text as plain data for JSON, in the form of every output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from wlk_live.speakers import speaker_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.tokens import ASRToken, Silence, SpeakerSpan, TranslatedText
    from wlk_live.captions.segments import Segment


def _name_or_none(speaker: int | str | None, names: Sequence[str]) -> str | None:
    return None if speaker is None else speaker_name(speaker, names)


def token_record(token: ASRToken, names: Sequence[str] = ()) -> dict[str, Any]:
    """Return a token as a JSON record; *names* are those of numbered speakers."""
    record = _spoken_record(token) | {
        "speaker": _name_or_none(token.speaker, names),
        "language": token.detected_language,
    }
    if token.spoken:
        record["spoken"] = [_spoken_record(each) for each in token.spoken]
    return record


def _spoken_record(token: ASRToken) -> dict[str, Any]:
    probability = None if token.probability is None else round(token.probability, 4)
    return span_record(token) | {"text": token.text, "probability": probability}


def segment_record(segment: Segment, names: Sequence[str] = ()) -> dict[str, Any]:
    """Return a caption as a JSON record, with its translation if it has one."""
    speaker = _name_or_none(segment.speaker, names)
    record = span_record(segment) | {"text": segment.text, "speaker": speaker}
    if segment.translation is not None:
        record["translation"] = segment.translation
    return record


def translation_record(text: TranslatedText) -> dict[str, Any]:
    """Return a translation as a JSON record."""
    return span_record(text) | {"text": text.text, "language": text.language}


def span_record(
    span: Silence | SpeakerSpan | ASRToken | Segment | TranslatedText,
) -> dict[str, Any]:
    """Return start and end as a JSON record, in rounded seconds."""
    return {"start": round_seconds(span.start), "end": round_seconds(span.end)}


def round_seconds(time: float) -> float:
    """Round a time to a tenth of a millisecond; a sample lasts 62.5 microseconds."""
    return round(time, 4)


def rounded(record: Any) -> dict[str, Any]:
    """Return the fields of an attrs class, such as StreamStats, with numbers rounded for JSON."""
    fields = attrs.asdict(record).items()
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in fields}
