"""The plain dialect of OpenAI's realtime transcription: text without times."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_core.audio import Resampler
from wlk_core.plugins import SAMPLE_RATE
from wlk_realtime.engine.exchange import Decoded
from wlk_realtime.engine.messages import (
    Message,
    ServerMessageError,
    parse,
    refusal_of,
    shortened,
)
from wlk_realtime.engine.pcm import base64_pcm16
from wlk_realtime.engine.untimed_words import UntimedWords

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wlk_core.plugins import Word

__all__ = ["OpenAiDialect", "OpenAiProbe", "OpenAiServer"]

_RATE = 24_000  # the only one that OpenAI takes
_FORMAT = {"type": "audio/pcm", "rate": _RATE}
_SHORTEST_SAMPLES = SAMPLE_RATE // 10  # OpenAI refuses less than 100 ms
_TRANSCRIPTION = "conversation.item.input_audio_transcription."
_UPDATED = ("session.updated", "transcription_session.updated")


@attrs.frozen(kw_only=True)
class OpenAiServer:
    """
    A model at a server with OpenAI's messages.

    Attributes:
        model: its name there, None to leave it to the address.
        is_flat: whether the session has the fields of the beta, as at speaches.

    """

    model: str | None = None
    is_flat: bool = False

    def open(self) -> OpenAiDialect:
        """Return a session at this server."""
        return OpenAiDialect(self)

    def configuration(self) -> str:
        """Return the message that opens a transcription without turn detection."""
        transcription = {} if self.model is None else {"model": self.model}
        session: Message
        if self.is_flat:
            session = {"turn_detection": None, "input_audio_transcription": transcription}
        else:
            audio = {"format": _FORMAT, "turn_detection": None, "transcription": transcription}
            session = {"type": "transcription", "audio": {"input": audio}}
        return json.dumps({"type": "session.update", "session": session})

    def check(self, message: Message) -> None:
        """Raise ServerMessageError unless the effective configuration is the requested one."""
        session = message.get("session")
        source = session if self.is_flat else _input_of(session)
        if not isinstance(source, dict) or source.get("turn_detection") is not None:
            raise ServerMessageError(
                f"expected a session without turn detection, got {shortened(session)}"
            )
        form = source.get("format", _FORMAT)
        if not isinstance(form, dict) or form.get("rate", _RATE) != _RATE:
            raise ServerMessageError(f"expected audio at {_RATE} Hz, got {shortened(form)}")


class OpenAiProbe:
    """Open a session as a stream would."""

    def __init__(self, server: OpenAiServer) -> None:
        self._requested = server
        #: what was found out, None before the end
        self.server: OpenAiServer | None = None

    def begin(self) -> list[str]:
        """Return the configuration."""
        return [self._requested.configuration()]

    def receive(self, message: Message) -> list[str]:
        """Apply a message; there is nothing to send."""
        if message["type"] == "error":
            raise refusal_of(message.get("error"))
        if message["type"] in _UPDATED:
            self._requested.check(message)
            self.server = self._requested
        return []


class OpenAiDialect:
    """
    A session at OpenAI, Azure, SGLang, speaches and others.

    An utterance is an item.  Its deltas are final text, and its transcript brings the rest, or all
    of it where a server sends no deltas.
    """

    def __init__(self, server: OpenAiServer) -> None:
        self._server = server
        self._is_ready = False
        self._is_committed = False  # and not completed
        self._resampler = Resampler(SAMPLE_RATE, to_rate=_RATE)
        self._first_sample = 0  # of the item, in the session
        self._samples = 0  # of the item
        self._text = ""  # of the item so far
        self._untimed = UntimedWords()
        self._words: list[Word] = []

    def begin(self) -> list[str]:
        """Return the configuration of the session."""
        return [self._server.configuration()]

    @property
    def is_ready(self) -> bool:
        """Whether the server has accepted the configuration."""
        return self._is_ready

    @property
    def is_answered(self) -> bool:
        """Whether the transcript of a complete utterance came."""
        return not self._is_committed

    def send(self, audio: NDArray[np.float32], *, is_last: bool) -> list[str]:
        """Return an append and, at the end of an utterance with audio, a commit."""
        self._samples += len(audio)
        self._untimed.append(audio)
        pieces = [self._resampler.push(audio)]
        if is_last and self._samples:
            missing = max(0, _SHORTEST_SAMPLES - self._samples)
            pieces += [self._resampler.push(np.zeros(missing, np.float32)), self._resampler.flush()]
        resampled = np.concatenate(pieces)
        messages: list[Message] = []
        if len(resampled):
            text = base64_pcm16(resampled)
            messages.append({"type": "input_audio_buffer.append", "audio": text})
        if is_last and self._samples:
            self._is_committed = True
            messages.append({"type": "input_audio_buffer.commit"})
        return [json.dumps(message) for message in messages]

    def receive(self, text: str | bytes) -> list[str]:
        """Apply a message; there is nothing to send."""
        message = parse(text)
        match message["type"]:
            case kind if kind in _UPDATED:
                self._server.check(message)
                self._is_ready = True
            case kind if kind == f"{_TRANSCRIPTION}delta":
                self._add(_text(message, "delta"))
            case kind if kind == f"{_TRANSCRIPTION}completed":
                self._complete(_text(message, "transcript"))
            case kind if kind in ("error", f"{_TRANSCRIPTION}failed"):
                raise refusal_of(message.get("error"))
        return []

    def take(self) -> Decoded:
        """Return the words since the last call."""
        words, self._words = tuple(self._words), []
        return Decoded(words=words, processed_samples=self._first_sample + self._samples)

    def _add(self, text: str) -> None:
        if not self._samples:
            raise ServerMessageError(f"text came without audio, {shortened(text)}")
        self._text += text
        self._commit(self._untimed.push(text))

    def _complete(self, transcript: str) -> None:
        if not self._is_committed:
            raise ServerMessageError(f"a transcript came too early, {shortened(transcript)}")
        # deltas are final: a transcript that reads otherwise changes nothing
        if transcript.lstrip().startswith(self._text.lstrip()):
            begin = len(transcript) - len(transcript.lstrip()) + len(self._text.lstrip())
            self._add(transcript[begin:])
        self._commit(self._untimed.finish())
        self._first_sample += self._samples
        self._samples, self._text, self._is_committed = 0, "", False
        self._untimed = UntimedWords()

    def _commit(self, words: list[Word]) -> None:
        self._words += [word.shifted(self._first_sample / SAMPLE_RATE) for word in words]


def _text(message: Message, name: str) -> str:
    text = message.get(name)
    if not isinstance(text, str):
        raise ServerMessageError(f"expected {name} as a text, got {shortened(text)}")
    return text.replace("\N{REPLACEMENT CHARACTER}", "")


def _input_of(session: object) -> object:
    audio = session.get("audio") if isinstance(session, dict) else None
    return audio.get("input") if isinstance(audio, dict) else None
