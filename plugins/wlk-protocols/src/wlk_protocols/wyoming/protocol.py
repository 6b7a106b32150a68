"""
Speech recognition over the Wyoming protocol.

It follows wyoming 1.10.2 (event.py, asr.py, audio.py, info.py, vad.py) and the component
`wyoming` of Home Assistant.
"""

from __future__ import annotations

from collections import deque
import json
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from wlk_live.session import Commit, End, Endpoint, Failure, SpeechStarted
from wlk_serve.protocols import RequestError, as_request_error

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from wlk_live.session import Event
    from wlk_serve.protocols import Message, SegmentEnd, SessionAudio, SessionInfo

_WIDTH, _CHANNELS = 2, 1  # bytes per sample, and channels
_RATES = (8_000, 48_000)  # lowest and highest, in samples per second


@attrs.define(kw_only=True)
class _Command:
    """A voice command with no transcript yet; `start` is in seconds on the session's clock."""

    start: float
    language: str | None
    text: str = ""
    has_begun: bool = False  # whether transcript-start was sent
    is_stopped: bool = False  # audio-stop was received


class WyomingProtocol:
    """
    A `ClientProtocol` for one connection, with one voice command after another.

    A command ends at a pause after words, or else with its audio: clients that leave the end of
    speech to the server read the transcript while they are still sending.  Audio of a command that
    comes after its transcript is dropped.
    """

    replaceable: ClassVar[Collection[str | None]] = ()

    def __init__(self, audio: SessionAudio, info: SessionInfo) -> None:
        self._audio = audio
        self._card = info.card
        self._commands: deque[_Command] = deque()
        self._is_answered = False  # the transcript was sent, but audio-stop has yet to come

    def begin(self) -> list[Message]:
        """Return nothing: the client sends the first event."""
        return []

    def receive(self, data: str | bytes) -> list[Message]:
        """Apply an event from the client, as returned by `read_event`."""
        try:
            kind, fields, payload = _parse_event(data)
            return list(self._apply(kind, fields, payload))
        except RequestError as error:
            return self.refuse(error)

    def refuse(self, error: RequestError) -> list[Message]:
        """Return an error event."""
        return [error_event(error)]

    def handle(self, event: Event | SegmentEnd) -> Iterator[Message]:
        """Apply an event of the session; it is ignored if every transcript has been sent."""
        if not self._commands:
            return
        command = self._commands[0]
        match event:
            case SpeechStarted():
                yield _event("voice-started", timestamp=_milliseconds(event.start - command.start))
            case Commit():
                yield from self._extend(command, event)
            case Endpoint(reason="commit"):
                yield from self._transcript()
            case Endpoint(reason="silence"):
                yield _event("voice-stopped", timestamp=_milliseconds(event.time - command.start))
                if command.text.strip() and not command.is_stopped:
                    self._is_answered = True
                    yield from self._transcript()
            case Failure(is_final=True):
                yield error_event(as_request_error(event.error))
            case End() if self._is_last and not self._audio.has_failed:
                yield from self._transcript()

    def end(self) -> list[Message]:
        """End the audio, for example before a shutdown."""
        self._audio.end()
        return []

    @property
    def _is_last(self) -> bool:
        """Whether the current event belongs to the last stream of the session."""
        return self._audio.is_ended and len(self._audio.segments) == 1

    @property
    def _open_command(self) -> _Command | None:
        """The command that is receiving audio, if any."""
        newest = self._commands[-1] if self._commands else None
        return None if newest is None or newest.is_stopped else newest

    def _apply(self, kind: str, fields: Message, payload: bytes) -> Iterator[Message]:
        match kind:
            case "describe":
                yield self._info()
            case "ping":
                yield _event("pong", text=fields.get("text"))
            case "transcribe":
                self._configure(fields)
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

    def _configure(self, fields: Message) -> None:
        if self._open_command is not None:
            raise _wrong_order("transcribe before audio-start")
        language = self._card.check_language(fields.get("language") or "") or self._card.language
        terms = [*_strings(fields, "transcript_names"), *_strings(fields, "transcript_terms")]
        keyterms = ", ".join(terms) if terms and self._card.takes("keyterms") else None
        options = attrs.evolve(self._audio.options, language=language, keyterms=keyterms)
        self._audio.change(options)

    def _start(self, fields: Message) -> None:
        if self._open_command is not None:
            raise _wrong_order("audio-stop before another audio-start")
        rate: Any = fields.get("rate")
        has_rate = isinstance(rate, int) and _RATES[0] <= rate <= _RATES[1]
        if self._audio.samples:
            has_rate = rate == self._audio.options.rate
        if not has_rate or (fields.get("width"), fields.get("channels")) != (_WIDTH, _CHANNELS):
            raise RequestError(
                "expected 16-bit audio of one channel at 8 to 48 kHz, one rate per connection, "
                f"got rate {rate}, width {fields.get('width')}, channels {fields.get('channels')}",
                code="invalid_audio",
            )
        if not self._commands:
            self._audio.clear()  # drop the audio after the transcript of the last command
        self._audio.change(attrs.evolve(self._audio.options, rate=rate))
        self._commands.append(
            _Command(start=self._audio.seconds, language=self._audio.options.language)
        )
        self._is_answered = False

    def _append(self, payload: bytes) -> None:
        if len(payload) % _WIDTH:
            raise RequestError("expected whole 16-bit samples", code="invalid_audio")
        if self._open_command is not None:
            self._audio.append(payload)
        elif not self._is_answered:
            raise _wrong_order("audio-start before audio-chunk")

    def _stop(self) -> Iterator[Message]:
        command = self._open_command
        if command is None:
            if not self._is_answered:
                raise _wrong_order("audio-start before audio-stop")
            self._is_answered = False
        else:
            command.is_stopped = True
            if self._audio.commit() is None:
                yield from self._transcript()  # there was no audio

    def _extend(self, command: _Command, event: Commit) -> Iterator[Message]:
        text = "".join(token.text for token in event.tokens)
        if command.language is None:
            detected = (token.detected_language for token in event.tokens)
            command.language = next(filter(None, detected), None)
        yield from _begin(command)
        yield _event("transcript-chunk", text=text if command.text else text.lstrip())
        command.text += text

    def _transcript(self) -> Iterator[Message]:
        command = self._commands.popleft()
        yield from _begin(command)
        yield _event("transcript", text=command.text.strip(), language=command.language)
        yield _event("transcript-stop")

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
    """Return an error event."""
    return _event("error", text=str(error), code=error.code)


def _wrong_order(expected: str) -> RequestError:
    return RequestError(f"expected {expected}", code="wrong_order")


def _begin(command: _Command) -> Iterator[Message]:
    if not command.has_begun:
        command.has_begun = True
        yield _event("transcript-start", language=command.language)


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _event(kind: str, **data: Any) -> Message:
    return {"type": kind, "data": data}


def _parse_event(data: str | bytes) -> tuple[str, Message, bytes]:
    """Return the type, data and payload of an event; raises RequestError if it is malformed."""
    line, _, rest = (data.encode() if isinstance(data, str) else data).partition(b"\n")
    try:
        header: Any = json.loads(line)
        length = header.get("data_length") or 0
        fields = {**(header.get("data") or {}), **(json.loads(rest[:length]) if length else {})}
        kind = header["type"]
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
        kind = None
    if not isinstance(kind, str):
        raise RequestError("expected an event with a type and a data object", code="invalid")
    return kind, fields, rest[length:]


def _strings(fields: Message, name: str) -> list[str]:
    values = fields.get(name) or []
    return [text for text in values if isinstance(text, str)] if isinstance(values, list) else []
