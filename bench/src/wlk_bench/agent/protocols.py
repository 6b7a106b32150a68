"""What a client of each protocol sends, and how it reads the answers; without I/O."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlencode

import attrs
import numpy as np

from wlk_bench.errors import BenchError, DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray


class RefusedSession(BenchError):  # noqa: N818 -- what the server did
    """A server answered with an error."""


@attrs.frozen(kw_only=True)
class SessionSettings:
    """What a client asks of a server; None leaves the choice to the server."""

    model: str | None = None
    language: str | None = None
    silence_seconds: float | None = None  #: after which an utterance ends


@attrs.frozen
class Answer:
    """Text of a segment: all of it so far, or its final text, after which the next one begins."""

    text: str
    is_final: bool


class Client(Protocol):
    """The messages of a session in one protocol."""

    rate: int  #: of the audio that it sends
    key_scheme: str  #: before the key, in the header Authorization

    def address(self, url: str) -> str:
        """Return the address to connect to."""
        ...

    def opening(self) -> Iterator[str]:
        """Yield the messages before the audio."""
        ...

    def audio(self, samples: NDArray[np.float32]) -> str | bytes:
        """Return the message that sends *samples* at `rate`."""
        ...

    def closing(self) -> Iterator[str]:
        """Yield the messages after the audio."""
        ...

    def read(self, message: dict[str, Any]) -> Iterator[Answer]:
        """
        Yield the text in a message of the server.

        Raises:
            RefusedSession: the message is an error.

        """
        ...


def _pcm(samples: NDArray[np.float32]) -> bytes:
    return (np.clip(samples, -1, 1) * 32_767).astype("<i2").tobytes()


class OpenAIRealtime:
    """A transcription session of OpenAI's Realtime API, in which the server detects the turns."""

    rate = 24_000  # the only one that OpenAI's own server takes
    key_scheme = "Bearer"

    def __init__(self, settings: SessionSettings) -> None:
        self._settings = settings
        self._texts: dict[str, str] = {}  # of items that are not complete

    def address(self, url: str) -> str:
        """Return the address of a transcription session."""
        return f"{url}/v1/realtime?intent=transcription"

    def opening(self) -> Iterator[str]:
        """Yield the configuration of the session."""
        settings = self._settings
        detection: dict[str, Any] = {"type": "server_vad"}
        if settings.silence_seconds is not None:
            detection["silence_duration_ms"] = round(1000 * settings.silence_seconds)
        transcription = {"model": settings.model, "language": settings.language}
        given = {key: value for key, value in transcription.items() if value is not None}
        audio = {
            "format": {"type": "audio/pcm", "rate": self.rate},
            "turn_detection": detection,
            **({"transcription": given} if given else {}),
        }
        session = {"type": "transcription", "audio": {"input": audio}}
        yield json.dumps({"type": "session.update", "session": session})

    def audio(self, samples: NDArray[np.float32]) -> str:
        """Return an append."""
        data = base64.b64encode(_pcm(samples)).decode()
        return json.dumps({"type": "input_audio_buffer.append", "audio": data})

    def closing(self) -> Iterator[str]:
        """Yield nothing, because the protocol has no end of audio but a commit."""
        yield from ()

    def read(self, message: dict[str, Any]) -> Iterator[Answer]:
        """Yield the deltas of an item, joined, and its transcript."""
        kind = str(message.get("type"))
        if kind == "error":
            raise RefusedSession(f"the server refused: {message['error'].get('message')}")
        item = str(message.get("item_id"))
        if kind.endswith("input_audio_transcription.delta"):
            self._texts[item] = self._texts.get(item, "") + message["delta"]
            yield Answer(self._texts[item], is_final=False)
        elif kind.endswith("input_audio_transcription.completed"):
            self._texts.pop(item, None)
            yield Answer(message["transcript"], is_final=True)


class DeepgramListen:
    """A session of Deepgram's v1 API with interim results."""

    rate = 16_000
    key_scheme = "Token"

    def __init__(self, settings: SessionSettings) -> None:
        self._settings = settings

    def address(self, url: str) -> str:
        """Return the address, whose query configures the session."""
        settings = self._settings
        silence = settings.silence_seconds
        fields = {
            "encoding": "linear16",
            "sample_rate": self.rate,
            "interim_results": "true",
            "model": settings.model,
            "language": settings.language,
            "endpointing": None if silence is None else round(1000 * silence),
        }
        return f"{url}/v1/listen?{_query(fields)}"

    def opening(self) -> Iterator[str]:
        """Yield nothing."""
        yield from ()

    def audio(self, samples: NDArray[np.float32]) -> bytes:
        """Return 16-bit samples."""
        return _pcm(samples)

    def closing(self) -> Iterator[str]:
        """Yield the message after which the server sends the rest and closes."""
        yield json.dumps({"type": "CloseStream"})

    def read(self, message: dict[str, Any]) -> Iterator[Answer]:
        """Yield the first alternative of a result."""
        if message.get("type") == "Error":
            raise RefusedSession(f"the server refused: {message.get('description')}")
        if message.get("type") == "Results":
            text = message["channel"]["alternatives"][0]["transcript"]
            yield Answer(text, is_final=bool(message["is_final"]))


class DeepgramFlux(DeepgramListen):
    """
    A session of Deepgram's v2 API, whose server detects the ends of turns.

    Raises:
        DataError: a language or a silence is set, which the protocol does not have.

    """

    def __init__(self, settings: SessionSettings) -> None:
        if settings.language is not None or settings.silence_seconds is not None:
            raise DataError(
                "expected no --language and no --silence with deepgram-flux, whose model decides "
                "on both; leave them out"
            )
        super().__init__(settings)

    def address(self, url: str) -> str:
        """Return the address, whose query configures the session."""
        fields = {
            "encoding": "linear16",
            "sample_rate": self.rate,
            "model": self._settings.model or "flux-general-en",
        }
        return f"{url}/v2/listen?{_query(fields)}"

    def read(self, message: dict[str, Any]) -> Iterator[Answer]:
        """Yield the transcript of a turn, final at its end."""
        if message.get("type") == "Error":
            raise RefusedSession(f"the server refused: {message.get('description')}")
        if message.get("type") == "TurnInfo":
            yield Answer(message["transcript"], is_final=message["event"] == "EndOfTurn")


PROTOCOLS: Mapping[str, type[OpenAIRealtime | DeepgramListen]] = {
    "openai-realtime": OpenAIRealtime,
    "deepgram": DeepgramListen,
    "deepgram-flux": DeepgramFlux,
}


def _query(fields: Mapping[str, object]) -> str:
    return urlencode({name: value for name, value in fields.items() if value is not None})
