"""OpenAI's audio endpoints: the fields of a form become a request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal, cast, get_args

import attrs
from msgspec import Meta

from wlk_serve.errors import RequestError, converted, invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wlk_serve.models.card import ModelCard

__all__ = ["ResponseFormat", "Task", "TranscriptionRequest", "parse_form"]

Task = Literal["transcribe", "translate"]
ResponseFormat = Literal["json", "text", "srt", "verbose_json", "vtt", "diarized_json"]
_FIELD_NAME = re.compile(r"[A-Za-z0-9_.\[\]-]{1,64}")  # what a header can carry
_MAX_IGNORED = 20
_GRANULARITIES = ("word", "segment")
_Temperature = Annotated[float, Meta(ge=0, le=1)]
_LISTS = {"timestamp_granularities", "include", "languages", "keywords"}
_KNOWN = {
    "model", "language", "prompt", "hotwords", "response_format", "stream", "temperature", *_LISTS,
}  # fmt: skip


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
    keyterms: str | None = None
    response_format: ResponseFormat = "json"
    granularities: frozenset[str] = frozenset({"segment"})
    has_logprobs: bool = False
    streams: bool = False
    ignored: tuple[str, ...] = ()

    @property
    def has_speakers(self) -> bool:
        """Whether the answer needs a diarizer."""
        return self.response_format == "diarized_json"


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
    if converted(single.get("temperature", "0"), _Temperature, "temperature", is_text=True):
        ignored.add("temperature")
    if "prompt" in single and not card.takes_prompt:
        ignored.add("prompt")
    languages = [text for text in values.get("languages", []) if text]
    if len(languages) == 1 and "language" not in single:
        single["language"] = languages[0]
    elif languages:
        ignored.add("languages")
    # `keywords` as in OpenAI's API, `hotwords` as faster-whisper's servers call them.
    named = ("keywords", "hotwords")
    terms = {name: ", ".join(filter(None, values.get(name, ()))) for name in named}
    if not card.takes_keyterms:
        ignored |= {name for name, text in terms.items() if text}
    language = card.check_language(single.get("language", ""))
    response_format = _response_format(single.get("response_format", "json"))
    if response_format == "diarized_json":
        _check_speakers(card, task)
        ignored |= {name for name in ("include", "timestamp_granularities") if name in values}
    streams = converted(single.get("stream") or "false", bool, "stream", is_text=True)
    if streams and response_format not in {"json", "text", "diarized_json"}:
        expected = "json, text or diarized_json with `stream`"
        raise invalid("response_format", expected, response_format)
    granularities = _choices("timestamp_granularities", values, _GRANULARITIES) or {"segment"}
    return TranscriptionRequest(
        task=task,
        model=card.name,
        language=language or card.language,
        prompt=single.get("prompt") if card.takes_prompt else None,
        keyterms=", ".join(filter(None, terms.values())) if card.takes_keyterms else None,
        response_format=response_format,
        granularities=frozenset(granularities),
        has_logprobs="logprobs" in _choices("include", values, ("logprobs",)),
        streams=streams,
        ignored=tuple(sorted(filter(_FIELD_NAME.fullmatch, ignored)))[:_MAX_IGNORED],
    )


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


def _choices(name: str, values: dict[str, list[str]], choices: Sequence[str]) -> set[str]:
    chosen = {text for text in values.get(name, []) if text}
    if unknown := sorted(chosen - set(choices)):
        raise invalid(name, f"among {', '.join(choices)}", repr(unknown[0][:100]))
    return chosen
