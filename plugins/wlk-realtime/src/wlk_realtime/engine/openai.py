"""The plain dialect of OpenAI's realtime transcription: text without times."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_core.audio import Resampler
from wlk_core.plugins import SAMPLE_RATE
from wlk_core.streaming import joined
from wlk_realtime.engine.exchange import Decoded
from wlk_realtime.engine.messages import (
    Message,
    ServerMessageError,
    parse,
    refusal_of,
    shortened,
)
from wlk_realtime.engine.pcm import base64_pcm16
from wlk_realtime.engine.pieces import AudioPieces
from wlk_realtime.engine.untimed_words import LONGEST_PIECE_STEPS, UntimedWords

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wlk_core.plugins import Word
    from wlk_realtime.engine.pieces import Part

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

    An utterance is an item, or several where it is long.  Deltas are a hypothesis, and the
    transcript of the item is final, because some servers decode again and some send no deltas.
    """

    def __init__(self, server: OpenAiServer) -> None:
        self._server = server
        self._is_ready = False
        self._pieces = AudioPieces(LONGEST_PIECE_STEPS)
        self._resampler = Resampler(SAMPLE_RATE, to_rate=_RATE)
        self._first_sample = 0  # of the item, in the session
        self._samples = 0  # of the item
        self._text = UntimedWords()  # of the item so far
        self._words: list[Word] = []
        self._tail = ""  # the last word of the utterance

    def begin(self) -> list[str]:
        """Return the configuration of the session."""
        return [self._server.configuration()]

    @property
    def is_ready(self) -> bool:
        """Whether the server has accepted the configuration."""
        return self._is_ready

    @property
    def is_answered(self) -> bool:
        """Whether the transcripts of all items came that have ended."""
        return self._pieces.is_idle

    def send(self, audio: NDArray[np.float32], *, is_last: bool) -> list[str]:
        """Return appends, and a commit at the end of an item."""
        if self._pieces.begins_utterance:
            self._tail = ""
        self._pieces.append(audio, is_last=is_last)
        return self._advance()

    def receive(self, text: str | bytes) -> list[str]:
        """Apply a message; return what was held for it."""
        message = parse(text)
        match message["type"]:
            case kind if kind in _UPDATED:
                self._server.check(message)
                self._is_ready = True
            case kind if kind == f"{_TRANSCRIPTION}delta":
                self._add(_text(message, "delta"))
            case kind if kind == f"{_TRANSCRIPTION}completed":
                self._complete(_text(message, "transcript"))
                return self._advance()
            case kind if kind in ("error", f"{_TRANSCRIPTION}failed"):
                raise refusal_of(message.get("error"))
        return []

    def take(self) -> Decoded:
        """Return the words since the last call."""
        words, self._words = tuple(self._words), []
        return Decoded(
            words=words,
            hypothesis=tuple(self._of_session()),
            processed_samples=self._first_sample + self._samples,
        )

    def _advance(self) -> list[str]:
        messages: list[str] = []
        while (part := self._pieces.take()) is not None:
            messages += map(json.dumps, self._messages(part))
        return messages

    def _messages(self, part: Part) -> list[Message]:
        self._samples += len(part.audio)
        pieces = [self._resampler.push(part.audio)]
        if part.is_last:
            missing = max(0, _SHORTEST_SAMPLES - self._samples)
            pieces += [self._resampler.push(np.zeros(missing, np.float32)), self._resampler.flush()]
        resampled = np.concatenate(pieces)
        messages: list[Message] = []
        if len(resampled):
            text = base64_pcm16(resampled)
            messages.append({"type": "input_audio_buffer.append", "audio": text})
        if part.is_last:
            messages.append({"type": "input_audio_buffer.commit"})
        return messages

    def _add(self, text: str) -> None:
        if not self._samples:
            raise ServerMessageError(f"text came without audio, {shortened(text)}")
        self._text.push(text)

    def _complete(self, transcript: str) -> None:
        if not self._pieces.is_closed:
            raise ServerMessageError(f"a transcript came too early, {shortened(transcript)}")
        self._text.replace(transcript)
        words = self._of_session()
        self._words += words
        self._tail = words[-1].text if words else self._tail
        self._first_sample += self._samples
        self._samples = 0
        self._text = UntimedWords()
        self._pieces.finish()

    def _of_session(self) -> list[Word]:
        """Return the words of the item in seconds of the session, joined to those before."""
        seconds = self._first_sample / SAMPLE_RATE
        words = [word.shifted(seconds) for word in self._text.over(self._samples)]
        if words and self._tail:
            words[0] = attrs.evolve(words[0], text=joined(self._tail, words[0].text))
        return words


def _text(message: Message, name: str) -> str:
    text = message.get(name)
    if not isinstance(text, str):
        raise ServerMessageError(f"expected {name} as a text, got {shortened(text)}")
    return text.replace("\N{REPLACEMENT CHARACTER}", "")


def _input_of(session: object) -> object:
    audio = session.get("audio") if isinstance(session, dict) else None
    return audio.get("input") if isinstance(audio, dict) else None
