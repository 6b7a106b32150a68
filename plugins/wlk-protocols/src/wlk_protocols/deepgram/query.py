"""Parse the queries of Deepgram's clients."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs
import msgspec
from starlette.datastructures import QueryParams

from wlk_core.processor import SAMPLE_RATE
from wlk_live.audio import wave_header
from wlk_live.language_choice import OPTION
from wlk_protocols.deepgram.formatting import FIELDS, formatting_filters
from wlk_protocols.fields import MIN_PAUSE, check_terms, gate_of, keyterms_of, language_of
from wlk_serve.protocols import RequestError, StreamOptions

if TYPE_CHECKING:
    from wlk_live.audio.pcm import Encoding
    from wlk_serve.protocols import Message, ModelCard

Door: TypeAlias = Literal["listen", "flux", "recordings"]

_ENCODINGS: dict[str, Encoding] = {
    "linear16": "s16le",
    "linear32": "f32le",
    "mulaw": "mulaw",
    "alaw": "alaw",
}
_RATES = (8_000, 48_000)  # lowest and highest, in samples per second
_MAX_CHANNELS = 16
_UTTERANCE_END = (1000, 5000)  # milliseconds, as at Deepgram
# Milliseconds of silence after which speech ends by default, as at OpenAI.  Deepgram's own 10 ms
# would end it between words: docs/latency.md has the early ends of each silence.
_ENDPOINTING = 500
_HALF_CERTAIN = 0.35  # seconds of silence after which a turn is over with confidence 0.5
_EOT_THRESHOLD, _EOT_TIMEOUT = 0.7, 5000  # defaults of Flux; the timeout is in milliseconds
_THRESHOLDS = ("eot_threshold", "eager_eot_threshold", "eot_timeout_ms")
_LISTS = {"keyterms": "keyterm", "language_hints": "language_hint"}  # name in Configure: in queries
_MAX_DIGITS = 9
_BOOLEANS = {"true": True, "false": False}
# The fields that each door has; all others are named as ignored.  Some are right without a word:
# models write punctuation, and a `tag` changes no transcript.
_COMMON = {
    "model",
    "version",
    "tag",
    "mip_opt_out",
    "encoding",
    "sample_rate",
    "channels",
    "keyterm",
}
_SPOKEN = {*_COMMON, "multichannel", "language", "keywords", "diarize", "punctuate"}
_DOORS: dict[Door, set[str]] = {
    "listen": {*_SPOKEN, "interim_results", "endpointing", "utterance_end_ms", "vad_events"},
    "flux": {*_COMMON, *_THRESHOLDS, "language_hint"},
    "recordings": {*_SPOKEN, "detect_language", "utterances"},
}


class Configure(msgspec.Struct):
    """The fields of a Configure message; null resets a threshold to its default."""

    thresholds: dict[str, int | float | str | None] | None = None
    keyterms: list[str] | str | None = None
    language_hints: list[str] | str | None = None
    numerals: bool | None = None


@attrs.frozen(kw_only=True)
class ListenQuery:
    """
    The supported fields of ``/v1/listen``.

    Attributes:
        options: how to open streams.
        has_interims: whether interim results are sent.
        ends_speech: whether a pause is reported as `speech_final`.
        has_speech_started: whether the beginning of speech is reported.
        utterance_end: seconds after the last word until UtteranceEnd; None to send none.
        has_speakers: whether words have speakers.
        is_webm: whether the audio is WebM.
        channels: number of interleaved channels in the audio.
        is_multichannel: whether each of them is transcribed, and not their mean.
        ignored: the names of fields that this server does not fulfil.

    """

    options: StreamOptions
    has_interims: bool = False
    ends_speech: bool = True
    has_speech_started: bool = False
    utterance_end: float | None = None
    has_speakers: bool = False
    is_webm: bool = False
    channels: int = 1
    is_multichannel: bool = False
    ignored: tuple[str, ...] = ()

    @classmethod
    def parse(cls, query: QueryParams, card: ModelCard) -> ListenQuery:
        """
        Parse *query*.

        Raises:
            RequestError: a field has an invalid value, or one that this server does not support.

        """
        endpointing: int | None = _ENDPOINTING
        if query.get("endpointing") == "false":
            endpointing = None
        elif query.get("endpointing", "true") != "true":
            endpointing = _integer(query, "endpointing", 0, 60_000)
        options = _options(query, card, None if endpointing is None else endpointing / 1000)
        utterance_end = _integer(query, "utterance_end_ms", *_UTTERANCE_END)
        channels = _integer(query, "channels", 1, _MAX_CHANNELS) or 1
        if channels > 1 and "encoding" not in query:
            raise _invalid("channels", "1 for WebM", query["channels"])
        return cls(
            options=options,
            channels=channels,
            is_multichannel=is_true(query, "multichannel") and channels > 1,
            has_interims=is_true(query, "interim_results"),
            ends_speech=query.get("endpointing") != "false",
            has_speech_started=is_true(query, "vad_events"),
            utterance_end=None if utterance_end is None else utterance_end / 1000,
            has_speakers=is_true(query, "diarize"),
            is_webm="encoding" not in query,
            ignored=ignored_fields(query, card, "listen"),
        )


@attrs.frozen(kw_only=True)
class FluxQuery:
    """
    The supported fields of ``/v2/listen``.

    The confidence that a turn is over grows with the silence after its last word, to 0.5 after
    0.35 s.

    Attributes:
        fields: the fields as received.
        card: the model.
        options: how to open streams.
        end_seconds: silence after which a turn ends.
        eager_seconds: silence after which it ends eagerly; infinity for never.
        trigger: why turns end, "model" or, if the timeout is shorter, "timeout".

    """

    fields: QueryParams
    card: ModelCard
    options: StreamOptions
    end_seconds: float
    eager_seconds: float = math.inf
    trigger: str = "model"

    @classmethod
    def parse(cls, query: QueryParams, card: ModelCard) -> FluxQuery:
        """
        Parse *query*.

        Raises:
            RequestError: a field has an invalid value, or one that this server does not support.

        """
        timeout = (_integer(query, "eot_timeout_ms", 500, 60_000) or _EOT_TIMEOUT) / 1000
        certain = _silence(_number(query, "eot_threshold", 0.5, 1.0, _EOT_THRESHOLD))
        eager = _number(query, "eager_eot_threshold", 0.3, 0.9, math.nan)
        seconds = max(MIN_PAUSE, min(certain, timeout))
        refuse_channels(query, "open one socket per channel")
        options = _options(query, card, seconds)
        return cls(
            fields=query,
            card=card,
            options=options,
            end_seconds=seconds,
            eager_seconds=math.inf if math.isnan(eager) else _silence(eager),
            trigger="timeout" if timeout < certain else "model",
        )

    @property
    def is_webm(self) -> bool:
        """Whether the audio is WebM."""
        return "encoding" not in self.fields

    @property
    def ignored(self) -> tuple[str, ...]:
        """The names of fields that this server does not have."""
        return ignored_fields(self.fields, self.card, "flux")

    @property
    def hang_over(self) -> float:
        """Seconds of audio that the gate passes on after speech."""
        return gate_of(self.end_seconds).hang_over

    def configured(self, message: Configure) -> FluxQuery:
        """
        Return the query as changed by a message.

        Raises:
            RequestError: as `parse`.

        """
        thresholds = message.thresholds or {}
        chosen = {name: thresholds[name] for name in _THRESHOLDS if name in thresholds}
        changes = {name: [] if value is None else [str(value)] for name, value in chosen.items()}
        for field, name in _LISTS.items():
            values = getattr(message, field)
            if values is not None:
                changes[name] = [values] if isinstance(values, str) else values
        if message.numerals is not None:
            changes["numerals"] = [str(message.numerals).lower()]
        kept = [item for item in self.fields.multi_items() if item[0] not in changes]
        new = [(name, value) for name, values in changes.items() for value in values]
        return FluxQuery.parse(QueryParams([*kept, *new]), self.card)

    def record(self) -> Message:
        """Return the options as ConfigureSuccess reports them."""
        thresholds: Message = {
            "eot_threshold": float(self.fields.get("eot_threshold", _EOT_THRESHOLD)),
            "eot_timeout_ms": int(self.fields.get("eot_timeout_ms") or _EOT_TIMEOUT),
        }
        if not math.isinf(self.eager_seconds):
            thresholds["eager_eot_threshold"] = float(self.fields["eager_eot_threshold"])
        lists = {field: self.fields.getlist(name) for field, name in _LISTS.items()}
        return {"thresholds": thresholds, **lists}

    @staticmethod
    def confidence(silence: float) -> float:
        """Return the confidence that a turn is over after *silence* seconds without a word."""
        silence = max(0.0, silence)
        return silence / (silence + _HALF_CERTAIN)


def _silence(confidence: float) -> float:
    """Return the seconds of silence after which *confidence* is reached."""
    return math.inf if confidence >= 1 else _HALF_CERTAIN * confidence / (1 - confidence)


def _options(query: QueryParams, card: ModelCard, silence: float | None) -> StreamOptions:
    """Return how to open streams, with a gate that ends speech after *silence* seconds."""
    # Without an encoding, the audio is WebM from a browser, which contains its own format.
    name = query.get("encoding", "linear16")
    rate = _integer(query, "sample_rate", *_RATES)
    if "encoding" not in query:
        rate = SAMPLE_RATE
    if name not in _ENCODINGS:
        expected = ", ".join(_ENCODINGS)
        raise _invalid("encoding", f"{expected}, or no encoding for WebM with Opus", name)
    if rate is None:
        raise _invalid("sample_rate", "the sample rate of the audio in Hz", "")
    return StreamOptions(
        encoding=_ENCODINGS[name],
        rate=rate,
        language=requested_language(query, card),
        keyterms=terms_of(query, card),
        gate=None if silence is None else gate_of(silence),
        filters=formatting_filters(query, card)[0],
    )


def header_of(query: QueryParams) -> bytes:
    """
    Return the header for a recording of samples; empty if the query does not declare them.

    Raises:
        RequestError: the sample rate or the number of channels of samples is out of range.

    """
    encoding = _ENCODINGS.get(query.get("encoding", ""))
    if encoding is None or "sample_rate" not in query:
        return b""
    rate = _integer(query, "sample_rate", *_RATES) or SAMPLE_RATE
    channels = _integer(query, "channels", 1, _MAX_CHANNELS) or 1
    return wave_header(encoding, rate=rate, channels=channels)


def requested_language(query: QueryParams, card: ModelCard) -> str | None:
    """Return the code of the requested language; None to detect it."""
    hints = query.getlist("language_hint")
    language = query.get("language", "")
    if not language and hints:
        language = ",".join(hints) if len(hints) == 1 or card.takes(OPTION) else "multi"
    return language_of(card, language)


def terms_of(query: QueryParams, card: ModelCard) -> str | None:
    """
    Return the keyterms separated by commas; None if there are none, or no support for them.

    Raises:
        RequestError: there are more of them than an engine can use.

    """
    # Each of the `keywords`, for models before nova-3, can end with a boost such as ":2".
    words = [text.partition(":")[0] for text in query.getlist("keywords")]
    terms = [*query.getlist("keyterm"), *words]
    check_terms("keyterm", terms)
    return keyterms_of(card, terms)


def ignored_fields(query: QueryParams, card: ModelCard, door: Door) -> tuple[str, ...]:
    """Return the names of the fields that request what *door* or this server does not have."""
    known = _DOORS[door] | (FIELDS - formatting_filters(query, card)[1])
    if card.speaker_delay is None:
        known = known - {"diarize"}
    if not card.takes("keyterms"):
        known = known - {"keyterm", "keywords"}
    if card.ignores_language:
        known = known - {"language", "language_hint", "detect_language"}
    return tuple(name for name, value in query.items() if name not in known and value != "false")


def refuse_channels(query: QueryParams, instead: str) -> None:
    """Refuse more than one channel; the error message says what to do *instead*."""
    if query.get("channels", "1") != "1" or is_true(query, "multichannel"):
        raise _invalid("channels", f"1; {instead}", query.get("channels", ""))


def _number(query: QueryParams, name: str, lowest: float, highest: float, default: float) -> float:
    if name not in query:
        return default
    try:
        number = float(query[name])
    except ValueError:
        number = math.nan
    if not lowest <= number <= highest:
        raise _invalid(name, f"a number from {lowest} to {highest}", query[name])
    return number


def _integer(query: QueryParams, name: str, lowest: int, highest: int) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    if not is_number or not lowest <= int(text) <= highest:
        raise _invalid(name, f"a whole number from {lowest} to {highest}", text)
    return int(text)


def is_true(query: QueryParams, name: str) -> bool:
    """Return the value of a boolean field, by default false."""
    text = query.get(name, "false").lower()
    if text not in _BOOLEANS:
        raise _invalid(name, "true or false", text)
    return _BOOLEANS[text]


def _invalid(name: str, expected: str, value: str) -> RequestError:
    got = f", got {value[:100]!r}" if value else ""
    return RequestError(f"expected {name} as {expected}{got}", code="invalid_query_parameter")
