"""OpenAI's transcription requests without I/O: parse forms, and turn events into answers."""

from __future__ import annotations

from collections import Counter
import json
import math
import re
import reprlib
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast, get_args
import zlib

from msgspec import Meta

from wlk_core.languages import NAMES
from wlk_live.captions.segments import segments_with_tokens, srt_text, vtt_text
from wlk_live.language_choice import OPTION, forced_language
from wlk_live.records import round_seconds
from wlk_live.session import Commit, End, Endpoint, Failure, SpeakerTurn
from wlk_live.speakers import speaker_name
from wlk_serve.errors import RequestError, converted, invalid
from wlk_serve.protocols.options import ResponseFormat, Task, TranscriptionRequest
from wlk_serve.words import (
    Deltas,
    SpeakerSegments,
    detected_languages,
    logprob_records,
    segment_record,
    word_records,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wlk_core.tokens import ASRToken
    from wlk_live.captions.segments import Segment
    from wlk_live.session.events import Event
    from wlk_serve.protocols.card import ModelCard
    from wlk_serve.protocols.options import Filters

Json: TypeAlias = "dict[str, Any]"
_FIELD_NAME = re.compile(r"[A-Za-z0-9_.\[\]-]{1,64}")  # safe in a header
_MAX_IGNORED = 20
_UNKNOWN = "unknown"  # the language of silence: OpenAI's clients need a string
_GRANULARITIES = ("word", "segment")
_Temperature = Annotated[float, Meta(ge=0, le=1)]
_FILTERS = "wlk.filters"
_LISTS = {"timestamp_granularities", "include", "languages", "keywords"}
_KNOWN = {
    "model", "language", "prompt", "hotwords", "response_format", "stream", "temperature", _FILTERS,
    "multichannel", *_LISTS,
}  # fmt: skip


def parse_form(
    fields: Iterable[tuple[str, str]], card: ModelCard, task: Task
) -> TranscriptionRequest:
    """
    Return the request in a form; names of lists may end with "[]", as OpenAI's SDK sends them.

    Raises:
        RequestError: a field has a wrong value; the message names the first such field.

    """
    values: dict[str, list[str]] = {}
    for name, value in fields:
        _check_unicode(name, value)
        values.setdefault(name.removesuffix("[]"), []).append(value)
    single = {name: texts[-1] for name, texts in values.items() if texts[-1]}
    model = single.get("model")
    card.check_name(model)
    if task == "translate" and "translation" not in card.spec.capabilities:
        raise RequestError(
            f"the model {card.name!r} does not translate; use /v1/audio/transcriptions",
            code="unsupported_task",
            param="model",
        )
    known = _KNOWN - {"language", "languages"} if card.ignores_language else _KNOWN
    ignored = {name for name in values if name not in known}
    if converted(single.get("temperature", "0"), _Temperature, "temperature", is_text=True):
        ignored.add("temperature")
    if "prompt" in single and not card.takes("prompt"):
        ignored.add("prompt")
    languages = [text for text in values.get("languages", []) if text]
    if languages and "language" not in single and (len(languages) == 1 or card.takes(OPTION)):
        single["language"] = ",".join(languages)
    elif languages:
        ignored.add("languages")
    # OpenAI's API calls them `keywords`, servers of faster-whisper `hotwords`.
    term_fields = ("keywords", "hotwords")
    terms = {name: ", ".join(filter(None, values.get(name, ()))) for name in term_fields}
    if not card.takes("keyterms"):
        ignored |= {name for name, text in terms.items() if text}
    language = card.check_language(single.get("language", ""))
    response_format = single.get("response_format", "json")
    _check_choices("response_format", {response_format}, get_args(ResponseFormat))
    if response_format == "diarized_json":
        _check_speakers(card, task)
        ignored |= {name for name in ("include", "timestamp_granularities") if name in values}
    streams = converted(single.get("stream") or "false", bool, "stream", is_text=True)
    if streams and response_format not in {"json", "text", "diarized_json"}:
        expected = "json, text or diarized_json with `stream`"
        raise invalid("response_format", expected, response_format)
    granularities = {text for text in values.get("timestamp_granularities", []) if text}
    _check_choices("timestamp_granularities", granularities, _GRANULARITIES)
    includes = {text for text in values.get("include", []) if text}
    _check_choices("include", includes, ("logprobs",))
    return TranscriptionRequest(
        task=task,
        model=card.named(model).name,
        language=language,
        prompt=single.get("prompt") if card.takes("prompt") else None,
        keyterms=", ".join(filter(None, terms.values())) if card.takes("keyterms") else None,
        filters=_filters(single, card, task),
        response_format=cast("ResponseFormat", response_format),
        granularities=frozenset(granularities or {"segment"}),
        has_logprobs="logprobs" in includes,
        streams=streams,
        is_multichannel=_is_multichannel(single, response_format, streams=streams),
        ignored=tuple(sorted(filter(_FIELD_NAME.fullmatch, ignored)))[:_MAX_IGNORED],
    )


def _filters(single: dict[str, str], card: ModelCard, task: Task) -> Filters:
    """Return the text filters in a form, an object of JSON; a translation has none."""
    if _FILTERS not in single:
        return None
    if task == "translate":
        raise invalid(_FILTERS, "for /v1/audio/transcriptions only")
    try:
        value = json.loads(single[_FILTERS])
    except (ValueError, RecursionError):
        expected = 'as JSON such as {"NAME": {"OPTION": "VALUE"}}'
        raise invalid(_FILTERS, expected, reprlib.repr(single[_FILTERS])) from None
    return card.check_filters(value, param=_FILTERS)


def _is_multichannel(single: dict[str, str], response_format: str, *, streams: bool) -> bool:
    asked = single.get("multichannel") or "false"
    is_multichannel: bool = converted(asked, bool, "multichannel", is_text=True)
    if is_multichannel and (streams or response_format == "diarized_json"):
        expected = "false with `stream` or the response_format diarized_json"
        raise invalid("multichannel", f"as {expected}", "true")
    return is_multichannel


def _check_unicode(name: str, value: str) -> None:
    """Refuse text that no engine can encode, such as half a surrogate pair of UTF-7."""
    try:
        (name + value).encode()
    except UnicodeEncodeError:
        raise invalid(ascii(name)[1:-1], "as valid Unicode", reprlib.repr(value)) from None


def _check_speakers(card: ModelCard, task: Task) -> None:
    reason = None
    if task == "translate":
        reason = "a translation has no speakers; use /v1/audio/transcriptions"
    elif card.speaker_delay is None:
        reason = "this server has no diarizer; start it with: wlk-core serve --diarizer NAME"
    if reason is not None:
        message = f"expected a `response_format` other than diarized_json: {reason}"
        raise RequestError(message, code="invalid_value", param="response_format")


def _check_choices(name: str, chosen: set[str], choices: Sequence[str]) -> None:
    if unknown := sorted(chosen - set(choices)):
        raise invalid(name, f"among {', '.join(choices)}", repr(unknown[0][:100]))


class Transcript:
    """
    The transcript of a recording so far; a plain object.

    Joined, the deltas are the text of the last event.  *speaker_delay* is the time in seconds until
    a speaker is known; None without a diarizer.
    """

    def __init__(self, request: TranscriptionRequest, speaker_delay: float | None = None) -> None:
        self._request = request
        self.tokens: list[ASRToken] = []
        self._deltas = Deltas()
        self._segments: list[Json] = []  # one speaker in each
        self._utterances = 1
        self.seconds = 0.0  #: the length of the audio, known at its end
        self._spoken: list[ASRToken] = []  # the tokens of the segments
        self._speakers: SpeakerSegments | None = None
        if request.has_speakers and speaker_delay is not None:
            self._speakers = SpeakerSegments(speaker_delay)

    def spoken_words(self) -> list[ASRToken]:
        """Return the words, with speakers if they were requested; call it only at the end."""
        return self.tokens if self._speakers is None else self._spoken

    def add(self, event: Event) -> list[Json]:
        """
        Apply *event*; return the server-sent events that result from it.

        Raises:
            WLKError: the recording, the engine or the diarizer failed.

        """
        records: list[Json] = []
        match event:
            case Commit():
                self.tokens += event.tokens
                if delta := self._deltas.add(event.tokens):
                    words = word_records(event.tokens)
                    records.append(
                        {"type": "transcript.text.delta", "delta": delta, "words": words}
                        | _logprobs(self._request, event.tokens)
                    )
            case End():
                self.seconds = event.audio_time
            case Failure(is_final=True):
                raise event.error
            case Failure(annotator="diarizer"):
                # The words are complete without it, but this answer is not.
                raise RequestError(
                    "the diarizer failed; the server's log has the cause",
                    status=500,
                    code="engine_failed",
                ) from event.error
        if self._speakers is not None:
            records += self._certain_segments(event, self._speakers)
        return records

    def done(self) -> Json:
        """Return the last server-sent event."""
        record = {"type": "transcript.text.done", **self._plain_record()}
        del record["usage"]  # OpenAI's event counts tokens only
        return {**record, "words": word_records(self.tokens)}

    def render(self) -> tuple[str, str]:
        """Return the media type and the body of the response."""
        match self._request.response_format:
            case "text":
                return "text/plain; charset=utf-8", self._deltas.text + "\n"
            case "srt":
                return "text/plain; charset=utf-8", srt_text(self.tokens)
            case "vtt":
                return "text/vtt; charset=utf-8", vtt_text(self.tokens)
            case "verbose_json":
                record = self._verbose_record()
            case "diarized_json":
                record = {
                    "task": self._request.task,
                    "duration": round_seconds(self.seconds),
                    "text": self._deltas.text,
                    "segments": self._segments,
                    "usage": self._usage(),
                }
            case _:
                record = self._plain_record()
        return "application/json", json.dumps(record)

    def _certain_segments(self, event: Event, speakers: SpeakerSegments) -> list[Json]:
        name = str(self._utterances)
        match event:
            case Commit():
                speakers.extend(name, event.tokens)
            case Endpoint():
                speakers.advance(event.time)
                speakers.end(name)
                self._utterances += 1
            case SpeakerTurn():
                speakers.add_span(event.span)
            case End():
                speakers.end(name)
                speakers.settle()
        lines = [line for _, line in speakers.take()]
        self._spoken += [token for line in lines for token in line.tokens]
        records = [
            {"type": "transcript.text.segment", "id": f"seg_{number}", **segment_record(line)}
            for number, line in enumerate(lines, len(self._segments))
        ]
        self._segments += records
        return records

    def _plain_record(self) -> Json:
        record: Json = {"text": self._deltas.text, "usage": self._usage()}
        return record | plain_fields(self._request, self.tokens)

    def _verbose_record(self) -> Json:
        record: Json = {
            "task": self._request.task,
            "language": language_name(self.tokens, self._request),
            "duration": round_seconds(self.seconds),
            "text": self._deltas.text,
            "usage": self._usage(),
        }
        if "segment" in self._request.granularities:
            segments = enumerate(segments_with_tokens(self.tokens))
            record["segments"] = [
                segment_entry(number, segment, tokens) for number, (segment, tokens) in segments
            ]
        if "word" in self._request.granularities:
            record["words"] = word_records(self.tokens)
        return record

    def _usage(self) -> Json:
        return {"type": "duration", "seconds": round_seconds(self.seconds)}


def _logprobs(request: TranscriptionRequest, tokens: Sequence[ASRToken]) -> Json:
    return {"logprobs": logprob_records(tokens) or []} if request.has_logprobs else {}


def plain_fields(request: TranscriptionRequest, tokens: Sequence[ASRToken]) -> Json:
    """Return the fields of the format json besides the text: logprobs and detected languages."""
    languages = detected_languages(tokens)
    return _logprobs(request, tokens) | ({"languages": languages} if languages else {})


def language_name(tokens: Iterable[ASRToken], request: TranscriptionRequest) -> str:
    """Return the English name of the transcript's language, in lower case as OpenAI writes it."""
    if request.task == "translate":
        return "english"
    counts = Counter(t.detected_language for t in tokens if t.detected_language)
    code = counts.most_common(1)[0][0] if counts else forced_language(request.language)
    return _UNKNOWN if code is None else NAMES.get(code, code).lower()


def segment_entry(number: int, segment: Segment, tokens: Sequence[ASRToken]) -> dict[str, Any]:
    """Return a segment; fields that only Whisper's own decoder has are neutral."""
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
        "avg_logprob": 0.0,  # without probabilities
        "no_speech_prob": 0.0,
    }
    logprobs = logprob_records(tokens)
    if logprobs:
        mean = math.fsum(entry["logprob"] for entry in logprobs) / len(logprobs)
        record["avg_logprob"] = round(mean, 6)
    if segment.speaker is not None:
        record["speaker"] = speaker_name(segment.speaker)
    return record
