"""
Serve OpenAI's Realtime translation at ``/v1/realtime/translations``: live text in two languages.

Only wlk-serve loads this module, so the translators work without a server installed.
"""

from __future__ import annotations

import itertools
import reprlib
from typing import TYPE_CHECKING, ClassVar

import msgspec

from wlk_core.languages import NAMES, find_language
from wlk_core.streaming import is_unspaced
from wlk_live.session import Commit, End, Failure, Translation
from wlk_serve.protocols import (
    Opening,
    RequestError,
    SocketRoute,
    StreamOptions,
    as_request_error,
    converted,
    invalid,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from wlk_live.session import Event
    from wlk_serve.protocols import Handshake, Message, SegmentEnd, SessionAudio, SessionInfo

_RATE = 24_000  # Hz; 16-bit samples at this rate are the only format of these sessions
_APPEND = "session.input_audio_buffer.append"


class _Model(msgspec.Struct):
    model: str


class _Input(msgspec.Struct):
    transcription: _Model | msgspec.UnsetType | None = msgspec.UNSET


class _Output(msgspec.Struct):
    language: str | msgspec.UnsetType = msgspec.UNSET


class _Audio(msgspec.Struct):
    input: _Input = msgspec.field(default_factory=_Input)
    output: _Output = msgspec.field(default_factory=_Output)


class _Session(msgspec.Struct):
    audio: _Audio = msgspec.field(default_factory=_Audio)


class _Message(msgspec.Struct):
    """A message of the client; what is not declared is skipped: 20 MB of objects take 500 MB."""

    type: str = ""
    audio: str | None = None
    session: _Session | None = None


class TranslationProtocol:
    """
    A `ClientProtocol` for one session.

    The target language is fixed by the server.  Translated speech and noise reduction are not
    supported; the configuration returned to the client says so.
    """

    replaceable: ClassVar[Collection[str | None]] = ()

    def __init__(self, audio: SessionAudio, info: SessionInfo) -> None:
        self._audio = audio
        self._info = info
        self._numbers = itertools.count(1)
        self._has_transcript = False
        self._last = ""  # the last character of the translation
        self._is_closed = False

    def begin(self) -> list[Message]:
        """Return the first message of the connection."""
        return [self._session("session.created")]

    def receive(self, data: str | bytes) -> list[Message]:
        """Apply a message from the client."""
        return list(self._apply(_decoded(data)))

    def refuse(self, error: RequestError) -> list[Message]:
        """Return an error message."""
        return [self._message("error", error=error.record())]

    def handle(self, event: Event | SegmentEnd) -> Iterator[Message]:
        """Apply an event of the session."""
        match event:
            case Commit(tokens) if tokens and self._has_transcript:
                text = "".join(token.text for token in tokens)
                yield self._delta("input", text, tokens[-1].end)
            case Translation(text):
                last, self._last = self._last, text.text[-1:]
                is_joined = not last or is_unspaced(last) or is_unspaced(text.text[:1])
                space = "" if is_joined else " "
                yield self._delta("output", space + text.text, text.end)
            case Failure(is_final=True) | Failure(annotator="translator"):
                # A failed translator does not end the session, which goes on with the transcript.
                yield from self.refuse(as_request_error(event.error))
            case End() if self._audio.is_ended and len(self._audio.segments) == 1:
                yield from self._closed()

    def end(self) -> list[Message]:
        """End the audio, at the client's request or before a shutdown; may be called again."""
        self._audio.end()
        return [] if self._audio.segments else [*self._closed()]

    def _apply(self, message: _Message) -> Iterator[Message]:
        kind = message.type
        if self._audio.is_ended or self._audio.is_over:
            return
        if kind == _APPEND:
            self._audio.append(converted(message.audio, bytes, "audio"), is_whole=True)
        elif kind == "session.update":
            self._update(converted(message.session, _Session, "session"))
            yield self._session("session.updated")
        elif kind == "session.close":
            yield from self.end()
        else:
            expected = f"as session.update, {_APPEND} or session.close"
            raise invalid("type", expected, reprlib.repr(kind), code="invalid_event")

    def _update(self, session: _Session) -> None:
        language, target = session.audio.output.language, self._info.card.translates_to
        if language and find_language(language, tuple(NAMES)) != target:
            expected = f"as {target}, the language of this server"
            raise invalid("session.audio.output.language", expected, reprlib.repr(language))
        transcription = session.audio.input.transcription
        if transcription is not msgspec.UNSET:
            self._has_transcript = transcription is not None

    def _closed(self) -> Iterator[Message]:
        if not self._is_closed:
            self._is_closed = True
            yield self._message("session.closed")

    def _delta(self, side: str, text: str, end: float) -> Message:
        kind = f"session.{side}_transcript.delta"
        return self._message(kind, delta=text, elapsed_ms=round(1000 * end))

    def _session(self, kind: str) -> Message:
        card = self._info.card
        transcription = {"model": card.name} if self._has_transcript else None
        return self._message(
            kind,
            session={
                "id": self._info.id,
                "type": "translation",
                "model": card.name,
                "expires_at": self._info.expires_at,
                "audio": {
                    "input": {"transcription": transcription, "noise_reduction": None},
                    "output": {"language": card.translates_to},
                },
            },
        )

    def _message(self, kind: str, **fields: object) -> Message:
        number = next(self._numbers)
        return {"type": kind, "event_id": f"event_{self._info.id}_{number}", **fields}


def _decoded(data: str | bytes) -> _Message:
    try:
        return msgspec.json.decode(data, type=_Message)
    except msgspec.ValidationError as error:
        reason = str(error)
        raise RequestError(reason[0].lower() + reason[1:], code="invalid_value") from None
    except (ValueError, RecursionError):
        raise RequestError(
            f"expected a JSON object, got {reprlib.repr(data)}", code="invalid_json"
        ) from None


def _open(handshake: Handshake) -> Opening:
    card = handshake.card(handshake.query.get("model"))
    if card.translates_to is None:
        raise RequestError(
            "this server does not translate; start it with: wlk-serve --translate-to LANG",
            code="invalid_value",
        )
    return Opening(
        make=TranslationProtocol,
        card=card,
        options=StreamOptions(rate=_RATE, language=card.language, translates=True),
    )


def routes() -> list[SocketRoute]:
    """Return the route of OpenAI's translations."""
    path = "/v1/realtime/translations"
    return [SocketRoute(protocol="translations", path=path, open=_open, takes_secrets=True)]
