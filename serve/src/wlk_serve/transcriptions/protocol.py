"""OpenAI's audio endpoints: form fields to a request, a transcription to a response."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Literal, cast, get_args
import zlib

import attrs

from wlk_core.captions import srt_text, vtt_text
from wlk_core.segments import segments_with_tokens
from wlk_core.session.records import round_seconds
from wlk_serve.errors import RequestError, invalid
from wlk_serve.words import (
    detected_languages,
    logprob_records,
    speaker_name,
    word_records,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wlk_core.segments import Segment
    from wlk_core.session.timeline import TextLine
    from wlk_core.tokens import ASRToken
    from wlk_serve.models.card import ModelCard

__all__ = [
    "Recognized",
    "ResponseFormat",
    "SpeakerLines",
    "Task",
    "TranscriptionRequest",
    "TranscriptionStream",
    "parse_form",
    "render",
]

Task = Literal["transcribe", "translate"]
ResponseFormat = Literal["json", "text", "srt", "verbose_json", "vtt", "diarized_json"]
_MEDIA_TYPES: dict[str, str] = {
    "json": "application/json",
    "text": "text/plain; charset=utf-8",
    "srt": "text/plain; charset=utf-8",
    "verbose_json": "application/json",
    "diarized_json": "application/json",
    "vtt": "text/vtt; charset=utf-8",
}
_FIELD_NAME = re.compile(r"[A-Za-z0-9_.\[\]-]{1,64}")  # what a header can carry
_MAX_IGNORED = 20
_GRANULARITIES = ("word", "segment")
_TRUTHS = {"true": True, "1": True, "false": False, "0": False, "": False}
_LISTS = {"timestamp_granularities", "include", "languages", "keywords"}
_KNOWN = {"model", "language", "prompt", "response_format", "stream", "temperature", *_LISTS}


@attrs.frozen(kw_only=True)
class TranscriptionRequest:
    """
    What a client asks for, but for the recording.

    Attributes:
        model: the name of the model's card.
        granularities: the parts of verbose_json, "word" and "segment".
        ignored: names of fields that this server cannot honour, at most 20 of plain letters.

    """

    task: Task
    model: str = ""
    language: str | None = None
    prompt: str | None = None
    response_format: ResponseFormat = "json"
    granularities: frozenset[str] = frozenset({"segment"})
    has_logprobs: bool = False
    streams: bool = False
    ignored: tuple[str, ...] = ()

    @property
    def has_speakers(self) -> bool:
        """Whether the answer needs a diarizer."""
        return self.response_format == "diarized_json"


@attrs.frozen
class SpeakerLines:
    """Text of one speaker each that became certain, in its order."""

    lines: tuple[TextLine, ...]


@attrs.frozen(kw_only=True)
class Recognized:
    """The tokens of a recording, its length in seconds, its language and its speakers' lines."""

    tokens: tuple[ASRToken, ...]
    duration: float
    language: str | None = None
    speaker_lines: tuple[TextLine, ...] = ()

    @property
    def text(self) -> str:
        """The transcript, without white space at its ends."""
        return "".join(token.text for token in self.tokens).strip()


def parse_form(
    fields: Iterable[tuple[str, str]], card: ModelCard, task: Task
) -> TranscriptionRequest:
    """
    Return the request of a form; names of lists may end with "[]", as OpenAI's SDK sends them.

    Raises:
        RequestError: a field has a wrong value; the first one is named.

    """
    values: dict[str, list[str]] = {}
    for name, value in fields:
        values.setdefault(name.removesuffix("[]"), []).append(value)
    single = {name: texts[-1] for name, texts in values.items() if texts[-1]}
    card.check_name(single.get("model"))
    if task == "translate" and not card.can_translate:
        raise RequestError(
            f"the model {card.name!r} does not translate; use /v1/audio/transcriptions",
            code="unsupported_task",
            param="model",
        )
    ignored = {name for name in values if name not in _KNOWN}
    if _temperature(single.get("temperature", "0")):
        ignored.add("temperature")
    if "prompt" in single and not card.takes_prompt:
        ignored.add("prompt")
    languages = [text for text in values.get("languages", []) if text]
    if len(languages) == 1 and "language" not in single:
        single["language"] = languages[0]
    elif languages:
        ignored.add("languages")
    if any(values.get("keywords", [])):
        ignored.add("keywords")
    language = card.check_language(single.get("language", ""))
    response_format = _response_format(single.get("response_format", "json"))
    if response_format == "diarized_json":
        _check_speakers(card, task)
        ignored |= {name for name in ("include", "timestamp_granularities") if name in values}
    streams = _truth("stream", single.get("stream", "false"))
    if streams and response_format not in {"json", "text", "diarized_json"}:
        expected = "json, text or diarized_json with `stream`"
        raise invalid("response_format", expected, response_format)
    granularities = _choices("timestamp_granularities", values, _GRANULARITIES) or {"segment"}
    return TranscriptionRequest(
        task=task,
        model=card.name,
        language=language or card.language,
        prompt=single.get("prompt") if card.takes_prompt else None,
        response_format=response_format,
        granularities=frozenset(granularities),
        has_logprobs="logprobs" in _choices("include", values, ("logprobs",)),
        streams=streams,
        ignored=tuple(sorted(filter(_FIELD_NAME.fullmatch, ignored)))[:_MAX_IGNORED],
    )


def render(request: TranscriptionRequest, recognized: Recognized) -> tuple[str, str]:
    """Return the media type and the body of the response."""
    media_type = _MEDIA_TYPES[request.response_format]
    match request.response_format:
        case "text":
            return media_type, recognized.text + "\n"
        case "srt":
            return media_type, srt_text(recognized.tokens)
        case "vtt":
            return media_type, vtt_text(recognized.tokens)
        case "verbose_json":
            return media_type, _json(_verbose_record(request, recognized))
        case "diarized_json":
            return media_type, _json(_diarized_record(request, recognized))
    return media_type, _json(_plain_record(request, recognized))


class TranscriptionStream:
    """The server-sent events of one transcription; joined deltas are the text of the last event."""

    def __init__(self, request: TranscriptionRequest) -> None:
        self._request = request
        self._held = ""  # white space at the end so far, which the transcript may not have
        self._has_text = False
        self._segments = 0

    def delta(self, tokens: Sequence[ASRToken]) -> str:
        """Return the event for newly committed *tokens*; empty where they add no text."""
        text = self._held + "".join(token.text for token in tokens)
        text = text if self._has_text else text.lstrip()
        delta = text.rstrip()
        self._held = text[len(delta) :]
        if not delta:
            return ""
        self._has_text = True
        record: dict[str, Any] = {
            "type": "transcript.text.delta",
            "delta": delta,
            "words": word_records(tokens),
        }
        if self._request.has_logprobs:
            record["logprobs"] = logprob_records(tokens) or []
        return _event(record)

    def segments(self, found: SpeakerLines) -> str:
        """Return the events for the text of speakers that became certain."""
        first = self._segments
        self._segments += len(found.lines)
        return "".join(map(_event, _speaker_records(found.lines, first)))

    def done(self, recognized: Recognized) -> str:
        """Return the last event."""
        record = {"type": "transcript.text.done", **_plain_record(self._request, recognized)}
        return _event({**record, "words": word_records(recognized.tokens)})

    def failed(self, error: RequestError) -> str:
        """Return the event that OpenAI's SDK raises as an APIError."""
        return _event({"error": error.record()})


def _plain_record(request: TranscriptionRequest, recognized: Recognized) -> dict[str, Any]:
    record: dict[str, Any] = {"text": recognized.text, "usage": _usage(recognized)}
    if request.has_logprobs:
        record["logprobs"] = logprob_records(recognized.tokens) or []
    if languages := detected_languages(recognized.tokens):
        record["languages"] = languages
    return record


def _verbose_record(request: TranscriptionRequest, recognized: Recognized) -> dict[str, Any]:
    record: dict[str, Any] = {
        "task": request.task,
        "language": recognized.language,
        "duration": round_seconds(recognized.duration),
        "text": recognized.text,
        "usage": _usage(recognized),
    }
    if "segment" in request.granularities:
        segments = enumerate(segments_with_tokens(recognized.tokens))
        record["segments"] = [
            _segment_record(number, segment, tokens) for number, (segment, tokens) in segments
        ]
    if "word" in request.granularities:
        record["words"] = word_records(recognized.tokens)
    return record


def _diarized_record(request: TranscriptionRequest, recognized: Recognized) -> dict[str, Any]:
    return {
        "task": request.task,
        "duration": round_seconds(recognized.duration),
        "text": recognized.text,
        "segments": _speaker_records(recognized.speaker_lines),
        "usage": _usage(recognized),
    }


def _speaker_records(lines: Iterable[TextLine], first: int = 0) -> list[dict[str, Any]]:
    """Return OpenAI's segments, which are its events too; *first* is the number of the first."""
    return [
        {
            "type": "transcript.text.segment",
            "id": f"seg_{number}",
            "start": round_seconds(line.start),
            "end": round_seconds(line.end),
            "text": line.text,
            "speaker": speaker_name(line.speaker),
        }
        for number, line in enumerate(lines, first)
    ]


def _segment_record(number: int, segment: Segment, tokens: Sequence[ASRToken]) -> dict[str, Any]:
    """Return a segment of *tokens*; what only Whisper's own decoder has is absent or neutral."""
    text = segment.text.encode("utf-8", "replace")
    record: dict[str, Any] = {
        "id": number,
        "seek": 0,
        "start": round_seconds(segment.start),
        "end": round_seconds(segment.end),
        "text": segment.text,
        "tokens": [],
        "temperature": 0.0,
        "compression_ratio": round(len(text) / len(zlib.compress(text)), 4),
    }
    logprobs = logprob_records(tokens)
    if logprobs:
        mean = math.fsum(entry["logprob"] for entry in logprobs) / len(logprobs)
        record["avg_logprob"] = round(mean, 6)
    if segment.speaker is not None:
        record["speaker"] = speaker_name(segment.speaker)
    return record


def _usage(recognized: Recognized) -> dict[str, Any]:
    return {"type": "duration", "seconds": round_seconds(recognized.duration)}


def _response_format(value: str) -> ResponseFormat:
    if value in get_args(ResponseFormat):
        return cast("ResponseFormat", value)
    expected = f"among {', '.join(get_args(ResponseFormat))}"
    raise invalid("response_format", expected, repr(value[:100]))


def _check_speakers(card: ModelCard, task: Task) -> None:
    reason = None
    if task == "translate":
        reason = "a translation has no speakers; use /v1/audio/transcriptions"
    elif card.speaker_delay is None:
        reason = "this server finds no speakers; start it with: wlk-core serve --diarizer NAME"
    if reason is not None:
        message = f"expected another `response_format` than diarized_json: {reason}"
        raise RequestError(message, code="invalid_value", param="response_format")


def _temperature(value: str) -> float:
    try:
        temperature = float(value)
    except ValueError:
        temperature = math.nan
    if not 0 <= temperature <= 1:
        raise invalid("temperature", "from 0 to 1", repr(value[:100]))
    return temperature


def _truth(name: str, value: str) -> bool:
    if value.lower() not in _TRUTHS:
        raise invalid(name, "as true or false", repr(value[:100]))
    return _TRUTHS[value.lower()]


def _choices(name: str, values: dict[str, list[str]], choices: Sequence[str]) -> set[str]:
    chosen = {text for text in values.get(name, []) if text}
    if unknown := sorted(chosen - set(choices)):
        raise invalid(name, f"among {', '.join(choices)}", repr(unknown[0][:100]))
    return chosen


def _json(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=True)


def _event(record: dict[str, Any]) -> str:
    return f"data: {_json(record)}\n\n"
