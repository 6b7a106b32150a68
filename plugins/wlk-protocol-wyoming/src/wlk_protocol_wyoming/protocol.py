"""
The events of speech recognition in the Wyoming protocol.

The source is wyoming 1.10.2 (event.py, asr.py, audio.py, info.py, vad.py) and the component
`wyoming` of Home Assistant.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from wlk_core.session import Commit, End, Endpoint, Failure, SpeechStarted
from wlk_serve.protocols import RequestError, as_request_error

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from wlk_core.session import Event
    from wlk_serve.protocols import Message, SegmentEnd, SessionAudio, SessionInfo

__all__ = ["WyomingProtocol", "error_event"]

_WIDTH, _CHANNELS = 2, 1  # bytes of a sample, and how many at a time
_RATES = (8_000, 48_000)  # samples a second


class WyomingProtocol:
    """
    One connection, on which voice commands follow each other; a `ClientProtocol` without I/O.

    A command ends with the audio, or before it with a pause after words: clients that leave the end
    of speech to the server read the transcript while they send.  What follows in that audio is
    dropped, because it is no part of the command.
    """

    replaceable: ClassVar[Collection[str | None]] = ()

    def __init__(self, audio: SessionAudio, info: SessionInfo) -> None:
        self._audio = audio
        self._card = info.card
        self._language = info.card.language
        self._takes_audio = False  # between audio-start and the transcript
        self._stops = 0  # ends of audio whose transcripts have not come
        self._text = ""
        self._has_begun = False  # whether transcript-start was sent
        self._start_time = 0.0  # of the command, in seconds of the session

    def begin(self) -> list[Message]:
        """Return no event: the client speaks first."""
        return []

    def receive(self, data: str | bytes) -> list[Message]:
        """Apply an event of the client, as `read_event` returns it."""
        try:
            kind, fields, payload = _parsed(data)
            return list(self._apply(kind, fields, payload))
        except RequestError as error:
            return self.refuse(error)

    def refuse(self, error: RequestError) -> list[Message]:
        """Return the event of an error."""
        return [error_event(error)]

    def handle(self, event: Event | SegmentEnd) -> Iterator[Message]:
        """Apply what happened to the audio."""
        if not (self._takes_audio or self._stops):
            return  # after the transcript
        match event:
            case SpeechStarted():
                yield _event("voice-started", timestamp=self._milliseconds(event.start))
            case Commit():
                text = "".join(token.text for token in event.tokens)
                yield from self._begin_transcript()
                yield _event("transcript-chunk", text=text if self._text else text.lstrip())
                self._text += text
            case Endpoint(reason="commit"):
                self._stops -= 1
                yield from self._transcript()
            case Endpoint(reason="silence"):
                yield _event("voice-stopped", timestamp=self._milliseconds(event.time))
                if self._text.strip() and not self._stops:
                    self._takes_audio = False
                    yield from self._transcript()
            case Failure(is_final=True):
                yield error_event(as_request_error(event.error))
            case End() if self._audio.is_ended and not self._audio.has_failed:
                yield from self._transcript()

    def end(self) -> list[Message]:
        """End the audio, as before a shutdown."""
        self._audio.end()
        return []

    def _apply(self, kind: str, fields: Message, payload: bytes) -> Iterator[Message]:
        match kind:
            case "describe":
                yield self._info()
            case "ping":
                yield _event("pong", text=fields.get("text"))
            case "transcribe":
                self._choose(fields)
            case "audio-start":
                self._start(fields)
            case "audio-chunk":
                self._append(payload)
            case "audio-stop":
                yield from self._stop()
            case _:
                raise RequestError(
                    f"expected describe, transcribe, audio-start, audio-chunk, audio-stop or ping, "
                    f"got {kind[:100]!r}",
                    code="unknown_event",
                )

    def _choose(self, fields: Message) -> None:
        if self._takes_audio:
            raise RequestError("expected transcribe before audio-start", code="wrong_order")
        language = self._card.check_language(fields.get("language") or "") or self._card.language
        terms = [*_texts(fields, "transcript_names"), *_texts(fields, "transcript_terms")]
        prompt = ", ".join(terms) or None if self._card.takes_prompt else None
        self._language = language
        settings = attrs.evolve(self._audio.settings, language=language, prompt=prompt)
        self._audio.change(settings)

    def _start(self, fields: Message) -> None:
        rate: Any = fields.get("rate")
        has_rate = isinstance(rate, int) and _RATES[0] <= rate <= _RATES[1]
        if self._audio.samples:
            has_rate = rate == self._audio.settings.rate
        if not has_rate or (fields.get("width"), fields.get("channels")) != (_WIDTH, _CHANNELS):
            raise RequestError(
                "expected 16-bit audio of one channel at 8 to 48 kHz, the same on a connection, "
                f"got rate {rate}, width {fields.get('width')}, channels {fields.get('channels')}",
                code="invalid_audio",
            )
        if not self._stops:  # what followed the last command is no part of this one
            self._audio.clear()
            self._text, self._has_begun = "", False
        self._audio.change(attrs.evolve(self._audio.settings, rate=rate))
        self._start_time = self._audio.seconds
        self._takes_audio = True

    def _append(self, payload: bytes) -> None:
        if not self._takes_audio:
            return  # the command is over, and its client has not read that yet
        if len(payload) % _WIDTH:
            raise RequestError("expected whole samples of 16 bits", code="invalid_audio")
        self._audio.append(payload)

    def _stop(self) -> Iterator[Message]:
        if not self._takes_audio:
            return
        self._takes_audio = False
        if self._audio.commit() is None:
            yield from self._transcript()  # of no audio
        else:
            self._stops += 1

    def _begin_transcript(self) -> Iterator[Message]:
        if not self._has_begun:
            self._has_begun = True
            yield _event("transcript-start", language=self._language)

    def _transcript(self) -> Iterator[Message]:
        yield from self._begin_transcript()
        yield _event("transcript", text=self._text.strip(), language=self._language)
        yield _event("transcript-stop")
        self._text, self._has_begun = "", False

    def _milliseconds(self, time: float) -> int:
        """Return a time of the session in milliseconds of the command."""
        return round((time - self._start_time) * 1000)

    def _info(self) -> Message:
        about = {"attribution": {"name": "wlk", "url": ""}, "installed": True, "version": None}
        card = self._card
        model = {
            **about,
            "name": card.name,
            "description": f"{card.name} on {card.spec.name}",
            "languages": list(card.spec.languages),
        }
        program = {
            **about,
            "name": "wlk-serve",
            "description": "Streaming speech recognition",
            "models": [model],
            "supports_transcript_streaming": True,
            "requires_external_vad": False,
            "prefers_auto_gain_enabled": False,
            "prefers_noise_reduction_enabled": False,
        }
        return _event("info", asr=[program])


def error_event(error: RequestError) -> Message:
    """Return the event of an error."""
    return _event("error", text=str(error), code=error.code)


def _event(kind: str, **data: Any) -> Message:
    return {"type": kind, "data": data}


def _parsed(data: str | bytes) -> tuple[str, Message, bytes]:
    """Return type, data and payload of an event; raises RequestError for a malformed one."""
    line, _, rest = (data.encode() if isinstance(data, str) else data).partition(b"\n")
    try:
        header: Any = json.loads(line)
        length = header.get("data_length") or 0
        fields = {**(header.get("data") or {}), **(json.loads(rest[:length]) if length else {})}
        kind = header["type"]
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
        kind = None
    if not isinstance(kind, str):
        raise RequestError("expected an event with a type and an object of data", code="invalid")
    return kind, fields, rest[length:]


def _texts(fields: Message, name: str) -> list[str]:
    values = fields.get(name) or []
    return [text for text in values if isinstance(text, str)] if isinstance(values, list) else []
