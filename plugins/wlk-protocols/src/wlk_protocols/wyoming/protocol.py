"""
Speech recognition over the Wyoming protocol.

It follows wyoming 1.10.2 (event.py, asr.py, audio.py, info.py, vad.py), wyoming-faster-whisper
3.8.1, the reference server, and the component `wyoming` of Home Assistant.
"""

from __future__ import annotations

from collections import deque
import logging
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import msgspec

from wlk_core.languages import NAMES
from wlk_live.language_choice import forced_language
from wlk_live.session import Commit, End, Endpoint, Failure, SpeechStarted
from wlk_protocols.fields import checked, decoded, fitting_terms, gate_of, keyterms_of, language_of
from wlk_protocols.wyoming.pcm import AudioConverter, AudioFormat
from wlk_serve.protocols import RequestError, as_request_error

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from wlk_live.session import Event
    from wlk_serve.protocols import Message, SegmentEnd, SessionAudio, SessionInfo, StreamOptions

_LOGGER = logging.getLogger(__name__)

# Seconds of silence that end a command, as in Home Assistant's own detector; its shortest, 0.25 s,
# also occurs within words.
_SILENCES = {"relaxed": 1.25, "default": 0.7, "aggressive": 0.3}
_MAX_REPLAY_BYTES = 30 * 32_000  # of a command's audio, for a `transcribe` that comes late


@attrs.define(kw_only=True)
class _Command:
    """
    A voice command with no transcript yet.

    Attributes:
        start: where it begins on the session's clock, in seconds.
        language: of its transcript; None until one is detected.
        ends_at_pause: whether the client leaves it to the server to find the end of speech.
        audio: what was received, up to a limit.

    """

    start: float
    language: str | None
    ends_at_pause: bool
    audio: bytearray = attrs.field(factory=bytearray)
    text: str = ""
    has_begun: bool = False  # whether transcript-start was sent
    is_stopped: bool = False  # audio-stop was received


class _Header(msgspec.Struct):
    type: str
    data: dict[str, Any] | None = None
    data_length: int | None = None


class _Transcribe(msgspec.Struct):
    name: str | None = None
    language: str | None = None
    vad_sensitivity: str | None = None
    transcript_names: list[str] | None = None
    transcript_terms: list[str] | None = None


class WyomingProtocol:
    """
    A `ClientProtocol` for one connection, with one voice command after another.

    A command ends with its audio.  One whose client sent a `vad_sensitivity` ends at a pause after
    words, if that comes first: such a client reads the transcript while it is still sending, and
    its audio after the transcript is dropped.  Others may be uploading a recording with pauses.

    Audio of any format is converted, and events may come in any order that has a meaning, as with
    the reference server: audio without a start begins a command, and a `transcribe` also applies to
    the command whose audio is coming.
    """

    replaceable: ClassVar[Collection[str | None]] = ()

    def __init__(self, audio: SessionAudio, info: SessionInfo) -> None:
        self._audio = audio
        self._card = info.card
        self._commands: deque[_Command] = deque()
        self._is_answered = False  # the transcript was sent, but audio-stop has yet to come
        self._ends_at_pause = False  # in the next command
        self._converter = AudioConverter(AudioFormat())

    def begin(self) -> list[Message]:
        """Return nothing: the client sends the first event."""
        return []

    def receive(self, data: str | bytes) -> list[Message]:
        """Apply an event from the client, as returned by `read_event`."""
        kind, fields, payload = _parse_event(data)
        return list(self._apply(kind, fields, payload))

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
                if command.ends_at_pause and command.text.strip() and not command.is_stopped:
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
            case "select-program":
                pass  # there is one
            case "transcribe":
                self._configure(fields)
            case "audio-start":
                self._set_format(fields)
                self._start()
            case "audio-chunk":
                self._append(fields, payload)
            case "audio-stop":
                yield from self._stop()
            case _:
                raise RequestError(
                    f"expected describe, transcribe, audio-start, audio-chunk, audio-stop or ping, "
                    f"got {kind[:100]!r}",
                    code="unknown_event",
                )

    def _configure(self, fields: Message) -> None:
        """Apply a transcribe event to the command that is receiving audio, else to the next one."""
        request = checked(fields, _Transcribe)
        if request.name is not None:
            self._card.check_name(request.name, param="name")
        silence = _SILENCES.get(request.vad_sensitivity or "default")
        if silence is None:
            raise RequestError(
                f"expected vad_sensitivity as {', '.join(_SILENCES)}, "
                f"got {(request.vad_sensitivity or '')[:100]!r}",
                code="invalid_value",
            )
        terms = [*(request.transcript_names or ()), *(request.transcript_terms or ())]
        fitting = fitting_terms(terms)  # names of a household; by order, names come before terms
        if len(fitting) < len(terms):
            _LOGGER.warning(
                "a client sent %d terms; the first %d are used", len(terms), len(fitting)
            )
        ends_at_pause = request.vad_sensitivity is not None
        options = attrs.evolve(
            self._audio.options,
            language=language_of(self._card, request.language or ""),
            keyterms=keyterms_of(self._card, fitting),
            gate=gate_of(silence) if ends_at_pause else None,
        )
        command = self._open_command
        if command is None:
            self._audio.change(options)
        elif options != self._audio.options:
            self._restart(command, options)
        self._ends_at_pause = ends_at_pause

    def _restart(self, command: _Command, options: StreamOptions) -> None:
        """Begin *command* again with other options, and with the audio that has come so far."""
        if len(command.audio) > _MAX_REPLAY_BYTES:
            raise _wrong_order("transcribe within 30 s of audio")
        command.ends_at_pause = options.gate is not None
        command.language = forced_language(options.language)
        command.text = ""
        command.has_begun = False
        self._audio.clear()
        self._audio.change(options)
        command.start = self._audio.seconds
        self._audio.append(bytes(command.audio))

    def _set_format(self, fields: Message) -> None:
        form = self._converter.format.updated(fields)
        if form != self._converter.format:
            if self._open_command is not None:
                self._take(self._open_command, self._converter.flush())
            self._converter = AudioConverter(form)

    def _start(self) -> None:
        if self._open_command is not None:
            return  # the audio goes on
        self._converter = AudioConverter(self._converter.format)
        if not self._commands:
            self._audio.clear()  # drop the audio after the transcript of the last command
        self._commands.append(
            _Command(
                start=self._audio.seconds,
                language=forced_language(self._audio.options.language),
                ends_at_pause=self._ends_at_pause,
            )
        )
        self._is_answered = False

    def _append(self, fields: Message, payload: bytes) -> None:
        if self._is_answered:
            return
        self._set_format(fields)
        self._start()
        self._take(self._commands[-1], self._converter.push(payload))

    def _take(self, command: _Command, audio: bytes) -> None:
        self._audio.append(audio)
        if len(command.audio) <= _MAX_REPLAY_BYTES:
            command.audio += audio

    def _stop(self) -> Iterator[Message]:
        if self._is_answered:
            self._is_answered = False
            return
        self._start()
        command = self._commands[-1]
        self._take(command, self._converter.flush())
        command.is_stopped = True
        command.audio.clear()
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
            # Home Assistant offers a model for the languages that it names, and none for no names.
            "languages": list(card.spec.languages or NAMES),
        }
        program = {
            **about,
            "name": "wlk-serve",
            "description": "Streaming speech recognition",
            "models": [model],
            "supports_transcript_streaming": True,
            # A client that leaves the end of speech to the server says so with `vad_sensitivity`.
            "requires_external_vad": True,
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
    header = decoded(line, _Header)
    length = header.data_length or 0
    fields = {**(header.data or {}), **(decoded(rest[:length], dict) if length else {})}
    return header.type, fields, rest[length:]
