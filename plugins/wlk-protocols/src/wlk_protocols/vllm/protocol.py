"""The protocol of vLLM's realtime API; vLLM 0.33, speech_to_text/realtime."""

from __future__ import annotations

import base64
import binascii
import time
from typing import TYPE_CHECKING, ClassVar

import msgspec

from wlk_live.audio import sample_bytes
from wlk_live.session import Commit, End, Endpoint, Failure
from wlk_protocols.fields import decoded
from wlk_serve.protocols import Message, RequestError, as_request_error

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from wlk_live.session import Event
    from wlk_serve.protocols import SegmentEnd, SessionAudio, SessionInfo

_SAMPLE_BYTES = sample_bytes("s16le")  # the only format of these sessions


class _Event(msgspec.Struct):
    """The fields that this protocol reads; a value of another type is an error."""

    type: str | None = None
    model: str | None = None
    audio: str = ""
    final: bool | None = None


class VllmProtocol:
    """
    A `ClientProtocol` for one connection, with one transcription after another.

    A transcription begins with a commit and ends with a final commit.  Its deltas, joined, are the
    text of its ``transcription.done``.
    """

    replaceable: ClassVar[Collection[str | None]] = ()

    def __init__(self, audio: SessionAudio, info: SessionInfo) -> None:
        self._audio = audio
        self._info = info
        self._has_model = False
        self._is_running = False
        self._starts_next = False  # a commit came before the `done` of this transcription
        self._finals = 0  # final commits whose `done` has yet to be sent
        self._text = ""  # of the current transcription, or of the next if none is running
        self._sent = 0  # characters of it
        self._tokens = 0

    def begin(self) -> list[Message]:
        """Return the first message of the connection."""
        return [{"type": "session.created", "id": self._info.id, "created": int(time.time())}]

    def receive(self, data: str | bytes) -> list[Message]:
        """Apply a message from the client."""
        return list(self._apply(decoded(data, _Event)))

    def refuse(self, error: RequestError) -> list[Message]:
        """Return an error message, in which vLLM sends a string instead of an object."""
        return [{"type": "error", "error": str(error), "code": error.code}]

    def handle(self, event: Event | SegmentEnd) -> Iterator[Message]:
        """Apply an event of the session."""
        match event:
            case Commit():
                self._text += "".join(token.text for token in event.tokens)
                self._tokens += len(event.tokens)
                yield from self._delta()
            case Endpoint(reason="commit"):
                yield from self._done()
            case Failure(is_final=True):
                error = as_request_error(event.error)
                yield {"type": "error", "error": str(error), "code": "processing_error"}
            case End() if self._is_running and not self._audio.has_failed:
                yield from self._done()

    def end(self) -> list[Message]:
        """End the audio, for example before a shutdown."""
        self._audio.end()
        return []

    def _apply(self, event: _Event) -> Iterator[Message]:
        if self._audio.is_ended:
            return
        match event.type:
            case "session.update":
                self._check_model(event.model)
            case "input_audio_buffer.append":
                self._audio.append(_samples(event.audio))
            case "input_audio_buffer.commit" if not self._has_model:
                raise RequestError(
                    "expected a session.update with the model first", code="model_not_validated"
                )
            case "input_audio_buffer.commit":
                yield from self._commit(is_final=bool(event.final))
            case kind:
                raise RequestError(f"unknown event: {str(kind)[:100]}", code="unknown_event")

    def _check_model(self, model: str | None) -> None:
        if model is None:
            raise RequestError("missing required field: model", code="invalid_event")
        if not self._info.card.has_name(model):
            raise RequestError(f"the model {model[:100]!r} is not served", code="model_not_found")
        self._has_model = True

    def _commit(self, *, is_final: bool) -> Iterator[Message]:
        if self._finals:
            self._starts_next = True
        self._is_running = True
        yield from self._delta()
        if is_final:
            self._finals += 1
            if self._audio.commit() is None:
                yield from self._done()  # there was no audio

    def _delta(self) -> Iterator[Message]:
        if self._is_running and len(self._text) > self._sent:
            yield {"type": "transcription.delta", "delta": self._text[self._sent :]}
            self._sent = len(self._text)

    def _done(self) -> Iterator[Message]:
        usage = {
            "prompt_tokens": 0,
            "completion_tokens": self._tokens,
            "total_tokens": self._tokens,
        }
        yield {"type": "transcription.done", "text": self._text, "usage": usage}
        self._text, self._sent, self._tokens = "", 0, 0
        self._finals = max(0, self._finals - 1)
        self._is_running = self._starts_next
        self._starts_next = self._finals > 0


def _samples(audio: str) -> bytes:
    try:
        data = base64.b64decode(audio, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if not data or len(data) % _SAMPLE_BYTES:
        raise RequestError("expected one or more 16-bit samples in base64", code="invalid_audio")
    return data
