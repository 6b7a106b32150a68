"""What a client of Deepgram asks for in the query of its address."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs
from starlette.datastructures import QueryParams

from wlk_core.processor import SAMPLE_RATE
from wlk_serve.protocols import GateParameters, RequestError, StreamSettings

if TYPE_CHECKING:
    from wlk_core.audio.pcm import Encoding
    from wlk_serve.protocols import Message, ModelCard

_ENCODINGS: dict[str, Encoding] = {
    "linear16": "s16le",
    "linear32": "f32le",
    "mulaw": "mulaw",
    "alaw": "alaw",
}
_RATES = (8_000, 48_000)  # samples a second
_MIN_ENDPOINTING = 0.3  # seconds; shorter pauses are inside of words
_PADDING_PART = 0.4  # of the silence: audio before the speech that is kept with it
_HANG_OVER_PART = 0.45  # of the silence, which the gate spends on it
_UTTERANCE_END = (1000, 5000)  # milliseconds, as at Deepgram
_HALF_CERTAIN = 0.35  # seconds of silence after which a turn is over as often as not
_EOT_THRESHOLD, _EOT_TIMEOUT = 0.7, 5000  # defaults of Flux, the time-out in milliseconds
_THRESHOLDS = ("eot_threshold", "eager_eot_threshold", "eot_timeout_ms")
_LISTS = {"keyterms": "keyterm", "language_hints": "language_hint"}  # of Configure, of the query
_MAX_DIGITS = 9
_TRUTHS = {"true": True, "false": False}


@attrs.frozen(kw_only=True)
class ListenQuery:
    """
    The fields of ``/v1/listen`` that change something; others are ignored, as formatting.

    Attributes:
        settings: how streams are opened.
        has_interims: whether text that may change is sent.
        ends_speech: whether a pause is reported as `speech_final`.
        has_speech_started: whether the beginning of speech is reported.
        utterance_end: seconds after the last word until UtteranceEnd; None for none.
        has_speakers: whether words have speakers.
        is_webm: whether the audio is WebM.

    """

    settings: StreamSettings
    has_interims: bool = False
    ends_speech: bool = True
    has_speech_started: bool = False
    utterance_end: float | None = None
    has_speakers: bool = False
    is_webm: bool = False

    @classmethod
    def parse(cls, query: QueryParams, card: ModelCard) -> ListenQuery:
        """
        Return what *query* asks for.

        Raises:
            RequestError: a field has a wrong value, or one that this server does not have.

        """
        endpointing = _whole(query, "endpointing", 0, 60_000) if _is_number(query) else None
        settings = _settings(query, card, None if endpointing is None else endpointing / 1000)
        utterance_end = _whole(query, "utterance_end_ms", *_UTTERANCE_END)
        return cls(
            settings=settings,
            has_interims=is_true(query, "interim_results"),
            ends_speech=query.get("endpointing") != "false",
            has_speech_started=is_true(query, "vad_events"),
            utterance_end=None if utterance_end is None else utterance_end / 1000,
            has_speakers=is_true(query, "diarize"),
            is_webm="encoding" not in query,
        )


@attrs.frozen(kw_only=True)
class FluxQuery:
    """
    The fields of ``/v2/listen`` that change something.

    A turn ends by silence: its confidence grows with the seconds since the last word, to a half
    after 0.35 s.

    Attributes:
        fields: as they came.
        card: the model.
        settings: how streams are opened.
        end_seconds: silence after which a turn ends.
        eager_seconds: silence after which it ends eagerly; infinity for never.
        trigger: why turns end, "model" or, where the time-out is shorter, "timeout".

    """

    fields: QueryParams
    card: ModelCard
    settings: StreamSettings
    end_seconds: float
    eager_seconds: float = math.inf
    trigger: str = "model"

    @classmethod
    def parse(cls, query: QueryParams, card: ModelCard) -> FluxQuery:
        """
        Return what *query* asks for.

        Raises:
            RequestError: a field has a wrong value, or one that this server does not have.

        """
        timeout = (_whole(query, "eot_timeout_ms", 500, 60_000) or _EOT_TIMEOUT) / 1000
        certain = _silence(_number(query, "eot_threshold", 0.5, 1.0, _EOT_THRESHOLD))
        eager = _number(query, "eager_eot_threshold", 0.3, 0.9, math.nan)
        seconds = max(_MIN_ENDPOINTING, min(certain, timeout))
        settings = _settings(query, card, seconds)
        return cls(
            fields=query,
            card=card,
            settings=settings,
            end_seconds=seconds,
            eager_seconds=math.inf if math.isnan(eager) else _silence(eager),
            trigger="timeout" if timeout < certain else "model",
        )

    @property
    def is_webm(self) -> bool:
        """Whether the audio is WebM."""
        return "encoding" not in self.fields

    @property
    def hang_over(self) -> float:
        """Seconds of audio after the speech that the gate passes on."""
        return self.end_seconds * _HANG_OVER_PART

    def configured(self, message: Message) -> FluxQuery:
        """
        Return what a message Configure makes of it; null is the default of a threshold.

        Raises:
            RequestError: as `parse`.

        """
        thresholds = message.get("thresholds") or {}
        if not isinstance(thresholds, dict):
            raise _wrong("thresholds", "an object", str(thresholds))
        chosen = {name: thresholds[name] for name in _THRESHOLDS if name in thresholds}
        changes = {name: [] if value is None else [str(value)] for name, value in chosen.items()}
        for field, name in _LISTS.items():
            texts = message.get(field)
            texts = [texts] if isinstance(texts, str) else texts
            if texts is None:
                continue
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise _wrong(field, "a list of texts", str(texts))
            changes[name] = texts
        kept = [item for item in self.fields.multi_items() if item[0] not in changes]
        new = [(name, text) for name, texts in changes.items() for text in texts]
        return FluxQuery.parse(QueryParams([*kept, *new]), self.card)

    def record(self) -> Message:
        """Return the settings as ConfigureSuccess reports them."""
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
        """Return the confidence that a turn is over, so many seconds after its last word."""
        silence = max(0.0, silence)
        return silence / (silence + _HALF_CERTAIN)


def _silence(confidence: float) -> float:
    """Return the seconds after the last word that give a confidence."""
    return math.inf if confidence >= 1 else _HALF_CERTAIN * confidence / (1 - confidence)


def _settings(query: QueryParams, card: ModelCard, silence: float | None) -> StreamSettings:
    """Return how streams are opened, with a gate that is certain after so many seconds."""
    # Without an encoding it is a recorder of a browser, whose format says the rest.
    name, rate = query.get("encoding", "linear16"), _whole(query, "sample_rate", *_RATES)
    if "encoding" not in query:
        rate = SAMPLE_RATE
    if name not in _ENCODINGS:
        expected = ", ".join(_ENCODINGS)
        raise _wrong("encoding", f"{expected}, or no encoding for WebM with Opus", name)
    refuse_channels(query, "open a socket for each channel")
    if rate is None:
        raise _wrong("sample_rate", "the samples a second of the audio", "")
    return StreamSettings(
        encoding=_ENCODINGS[name],
        rate=rate,
        language=language_of(query, card),
        keyterms=terms_of(query, card),
        gate=None if silence is None else _gate(max(_MIN_ENDPOINTING, silence)),
    )


def language_of(query: QueryParams, card: ModelCard) -> str | None:
    """Return the code of the language that is asked for; None to detect it."""
    hints = query.getlist("language_hint")
    language = query.get("language") or (hints[0] if len(hints) == 1 else "multi" if hints else "")
    return None if language == "multi" else card.check_language(language) or card.language


def terms_of(query: QueryParams, card: ModelCard) -> str | None:
    """Return the keyterms, separated by commas; None for none."""
    # `keywords` of models before nova-3 may end with a boost: ":2".
    words = [text.partition(":")[0] for text in query.getlist("keywords")]
    terms = ", ".join([*query.getlist("keyterm"), *words])
    return terms or None if card.takes("keyterms") else None


def refuse_channels(query: QueryParams, instead: str) -> None:
    """Check that one channel is asked for; the message tells what to do *instead*."""
    if query.get("channels", "1") != "1" or is_true(query, "multichannel"):
        raise _wrong("channels", f"1; {instead}", query.get("channels", ""))


def _is_number(query: QueryParams) -> bool:
    return query.get("endpointing", "false") not in {"true", "false"}


def _gate(seconds: float) -> GateParameters:
    return GateParameters(silence_seconds=seconds, pre_roll=seconds * _PADDING_PART)


def _number(query: QueryParams, name: str, lowest: float, highest: float, default: float) -> float:
    if name not in query:
        return default
    try:
        number = float(query[name])
    except ValueError:
        number = math.nan
    if not lowest <= number <= highest:
        raise _wrong(name, f"a number from {lowest} to {highest}", query[name])
    return number


def _whole(query: QueryParams, name: str, lowest: int, highest: int) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    if not is_number or not lowest <= int(text) <= highest:
        raise _wrong(name, f"a whole number from {lowest} to {highest}", text)
    return int(text)


def is_true(query: QueryParams, name: str) -> bool:
    """Return a field that is true or false, and false where it is left out."""
    text = query.get(name, "false").lower()
    if text not in _TRUTHS:
        raise _wrong(name, "true or false", text)
    return _TRUTHS[text]


def _wrong(name: str, expected: str, found: str) -> RequestError:
    got = f", got {found[:100]!r}" if found else ""
    return RequestError(f"expected {name} as {expected}{got}", code="invalid_query_parameter")
