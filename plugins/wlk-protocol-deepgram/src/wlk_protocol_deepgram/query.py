"""What a client of Deepgram asks for in the query of its address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_serve.protocols import GateTimes, RequestError, StreamSettings

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams

    from wlk_core.audio.pcm import Encoding
    from wlk_serve.protocols import ModelCard

__all__ = ["ListenQuery"]

_ENCODINGS: dict[str, Encoding] = {
    "linear16": "s16le",
    "linear32": "f32le",
    "mulaw": "mulaw",
    "alaw": "alaw",
}
_SAMPLE_BYTES: dict[Encoding, int] = {"s16le": 2, "f32le": 4, "mulaw": 1, "alaw": 1}
_RATES = (8_000, 48_000)  # samples a second
_MIN_ENDPOINTING = 0.3  # seconds; shorter pauses are inside of words
_PADDING_PART = 0.4  # of the silence: audio before the speech that is kept with it
_HANG_OVER_PART = 0.45
_UTTERANCE_END = (1000, 5000)  # milliseconds, as at Deepgram
_TRUTHS = {"true": True, "false": False}


@attrs.frozen(kw_only=True)
class ListenQuery:
    """
    The fields of ``/v1/listen`` that change something; others are ignored, as formatting.

    Attributes:
        settings: how streams are opened.
        sample_bytes: of a sample of the audio.
        has_interims: whether text that may change is sent.
        ends_speech: whether a pause is reported as `speech_final`.
        has_speech_started: whether the beginning of speech is reported.
        utterance_end: seconds after the last word until UtteranceEnd; None for none.
        has_speakers: whether words have speakers.

    """

    settings: StreamSettings
    sample_bytes: int
    has_interims: bool = False
    ends_speech: bool = True
    has_speech_started: bool = False
    utterance_end: float | None = None
    has_speakers: bool = False

    @classmethod
    def parse(cls, query: QueryParams, card: ModelCard) -> ListenQuery:
        """
        Return what *query* asks for.

        Raises:
            RequestError: a field has a wrong value, or one that this server does not have.

        """
        name = query.get("encoding", "")
        if name not in _ENCODINGS:
            expected = ", ".join(_ENCODINGS)
            raise _wrong("encoding", f"{expected}; containers are not decoded", name)
        if query.get("channels", "1") != "1" or _truth(query, "multichannel"):
            raise _wrong("channels", "1; open a socket for each channel", query.get("channels", ""))
        rate = _whole(query, "sample_rate", *_RATES)
        if rate is None:
            raise _wrong("sample_rate", "the samples a second of the audio", "")
        language = query.get("language", "")
        utterance_end = _whole(query, "utterance_end_ms", *_UTTERANCE_END)
        keyterms = ", ".join(query.getlist("keyterm"))
        endpointing = query.get("endpointing", "")
        settings = StreamSettings(
            encoding=_ENCODINGS[name],
            rate=rate,
            language=None
            if language == "multi"
            else card.check_language(language) or card.language,
            prompt=keyterms or None if card.takes_prompt else None,
            gate=_gate(query) if endpointing.isdigit() else None,
        )
        return cls(
            settings=settings,
            sample_bytes=_SAMPLE_BYTES[settings.encoding],
            has_interims=_truth(query, "interim_results"),
            ends_speech=endpointing != "false",
            has_speech_started=_truth(query, "vad_events"),
            utterance_end=None if utterance_end is None else utterance_end / 1000,
            has_speakers=_truth(query, "diarize"),
        )


def _gate(query: QueryParams) -> GateTimes:
    """Return a gate that is certain of a silence after the time that a client asks for."""
    seconds = max(_MIN_ENDPOINTING, (_whole(query, "endpointing", 0, 60_000) or 0) / 1000)
    return GateTimes(
        threshold=0.5,
        quiet_threshold=0.35,
        pre_roll=seconds * _PADDING_PART,
        hang_over=seconds * _HANG_OVER_PART,
        min_silence=seconds * (1 - _PADDING_PART - _HANG_OVER_PART),
    )


def _whole(query: QueryParams, name: str, lowest: int, highest: int) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or not lowest <= int(text[:9]) <= highest:
        raise _wrong(name, f"a whole number from {lowest} to {highest}", text)
    return int(text)


def _truth(query: QueryParams, name: str) -> bool:
    text = query.get(name, "false").lower()
    if text not in _TRUTHS:
        raise _wrong(name, "true or false", text)
    return _TRUTHS[text]


def _wrong(name: str, expected: str, found: str) -> RequestError:
    got = f", got {found[:100]!r}" if found else ""
    return RequestError(f"expected {name} as {expected}{got}", code="invalid_query_parameter")
