"""The dialect of OpenAI's realtime transcription: text without times."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs
import numpy as np
import soxr

from wlk_core.plugins import SAMPLE_RATE
from wlk_realtime.engine.messages import (
    Message,
    ServerMessageError,
    audio_input,
    check_length,
    parse,
    refusal_of,
    shortened,
    to_text,
)
from wlk_realtime.engine.pieces import (
    MAX_UNTIMED_STEPS,
    AudioPieces,
    Part,
    base64_pcm16,
    untimed_words,
)
from wlk_realtime.engine.requests import Decoded

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RATE = 24_000  # Hz, the only rate that OpenAI accepts
_FORMAT = {"type": "audio/pcm", "rate": _RATE}
_MIN_SAMPLES = SAMPLE_RATE // 10  # OpenAI refuses less than 100 ms
_TRANSCRIPTION = "conversation.item.input_audio_transcription."


@attrs.frozen(kw_only=True)
class OpenAiServer:
    """
    A model at a server that speaks OpenAI's protocol.

    Attributes:
        model: its name at the server, None if the address selects it.
        is_flat: whether sessions have the flat fields of the beta protocol, as at speaches.

    """

    model: str | None = None
    is_flat: bool = False


class OpenAiDialect:
    """
    A session at OpenAI, Azure, SGLang, speaches and others.

    An utterance is one item, or several if it is long.  Deltas are the hypothesis; only transcripts
    of items are committed: some servers decode the item again for it, and others send no deltas.
    """

    def __init__(self, server: OpenAiServer) -> None:
        self._server = server
        self._pieces = AudioPieces(MAX_UNTIMED_STEPS)  # each is an item
        self._resampler = soxr.ResampleStream(SAMPLE_RATE, _RATE, 1, dtype="float32")
        self._text = ""  # the deltas of the item so far
        #: whether the server has accepted the configuration
        self.is_ready = False

    def begin(self) -> list[str]:
        """Return the message that configures transcription without turn detection."""
        transcription = {} if self._server.model is None else {"model": self._server.model}
        session: Message
        if self._server.is_flat:
            session = {"turn_detection": None, "input_audio_transcription": transcription}
        else:
            audio = {"format": _FORMAT, "turn_detection": None, "transcription": transcription}
            session = {"type": "transcription", "audio": {"input": audio}}
        return [json.dumps({"type": "session.update", "session": session})]

    @property
    def is_answered(self) -> bool:
        """Whether the server has sent the transcript of every item that was committed."""
        return self._pieces.is_idle

    def send(self, audio: NDArray[np.float32], *, is_last: bool) -> list[str]:
        """Return appends, and a commit if an item ends."""
        self._pieces.append(audio, is_last=is_last)
        return self._queued_messages()

    def receive(self, text: str | bytes) -> list[str]:
        """Apply a message; return the queued messages that it allows to send."""
        message = parse(text)
        match message["type"]:
            case "session.updated" | "transcription_session.updated":
                self._check_session(message.get("session"))
            case kind if kind == f"{_TRANSCRIPTION}delta":
                delta = to_text(message, "delta")
                if not self._pieces.samples:
                    raise ServerMessageError(f"text came without audio, {shortened(delta)}")
                self._text = check_length(self._text + delta, self._pieces.samples / SAMPLE_RATE)
            case kind if kind == f"{_TRANSCRIPTION}completed":
                return self._complete(to_text(message, "transcript"))
            case kind if kind in ("error", f"{_TRANSCRIPTION}failed"):
                raise refusal_of(message.get("error"))
        return []

    def take(self) -> Decoded:
        """Return the words since the last call."""
        pieces = self._pieces
        return Decoded(
            words=pieces.take_words(),
            hypothesis=pieces.placed(untimed_words(self._text, pieces.samples)),
            processed_samples=pieces.processed(pieces.samples),
        )

    def _check_session(self, session: object) -> None:
        source = session if self._server.is_flat else audio_input(session)
        if not isinstance(source, dict) or source.get("turn_detection") is not None:
            raise ServerMessageError(
                f"expected a session without turn detection, got {shortened(session)}"
            )
        audio_format = source.get("format", _FORMAT)
        if not isinstance(audio_format, dict) or audio_format.get("rate", _RATE) != _RATE:
            raise ServerMessageError(f"expected audio at {_RATE} Hz, got {shortened(audio_format)}")
        self.is_ready = True

    def _complete(self, transcript: str) -> list[str]:
        if not self._pieces.is_closed:
            raise ServerMessageError(f"a transcript came too early, {shortened(transcript)}")
        self._pieces.commit(untimed_words(transcript, self._pieces.samples))
        self._pieces.finish()
        self._text = ""
        return self._queued_messages()

    def _queued_messages(self) -> list[str]:
        """Return the messages of all queued audio that can be sent now."""
        return [
            json.dumps(message) for part in self._pieces.parts() for message in self._messages(part)
        ]

    def _messages(self, part: Part) -> list[Message]:
        audio = part.audio
        if part.is_last:
            audio = np.pad(audio, (0, max(0, _MIN_SAMPLES - self._pieces.samples)))
        resampled = self._resampler.resample_chunk(audio, last=part.is_last)
        if part.is_last:
            self._resampler.clear()  # it has returned all of the item, and takes the next one
        messages: list[Message] = []
        if len(resampled):
            text = base64_pcm16(resampled)
            messages.append({"type": "input_audio_buffer.append", "audio": text})
        if part.is_last:
            messages.append({"type": "input_audio_buffer.commit"})
        return messages
