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
    #: After the end of a sentence, when the client ends the utterance; None: only the server does.
    commit_seconds: float | None = None


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

    def audio(self, samples: NDArray[np.float32]) -> Iterator[str | bytes]:
        """Yield the messages that send *samples* at `rate`."""
        ...

    def commit(self) -> Iterator[str]:
        """Yield the messages that end an utterance, if the settings want that of the client."""
        ...

    def closing(self) -> Iterator[str | bytes]:
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


def _append(samples: NDArray[np.float32]) -> str:
    data = base64.b64encode(_pcm(samples)).decode()
    return json.dumps({"type": "input_audio_buffer.append", "audio": data})


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
        only_commits = settings.silence_seconds is None and settings.commit_seconds is not None
        transcription = {"model": settings.model, "language": settings.language}
        given = {key: value for key, value in transcription.items() if value is not None}
        audio = {
            "format": {"type": "audio/pcm", "rate": self.rate},
            "turn_detection": None if only_commits else detection,
            **({"transcription": given} if given else {}),
        }
        session = {"type": "transcription", "audio": {"input": audio}}
        yield json.dumps({"type": "session.update", "session": session})

    def audio(self, samples: NDArray[np.float32]) -> Iterator[str]:
        """Yield an append."""
        yield _append(samples)

    def commit(self) -> Iterator[str]:
        """Yield a commit."""
        yield json.dumps({"type": "input_audio_buffer.commit"})

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

    def audio(self, samples: NDArray[np.float32]) -> Iterator[bytes]:
        """Yield 16-bit samples."""
        yield _pcm(samples)

    def commit(self) -> Iterator[str]:
        """Yield the message that makes all words so far final."""
        yield json.dumps({"type": "Finalize"})

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

    def commit(self) -> Iterator[str]:
        """Yield the message that ends the turn."""
        yield json.dumps({"type": "ForceEndTurn"})

    def read(self, message: dict[str, Any]) -> Iterator[Answer]:
        """Yield the transcript of a turn, final at its end."""
        if message.get("type") == "Error":
            raise RefusedSession(f"the server refused: {message.get('description')}")
        if message.get("type") == "TurnInfo":
            yield Answer(message["transcript"], is_final=message["event"] == "EndOfTurn")


class VllmRealtime:
    """
    A connection of vLLM's realtime API: a transcription for each utterance, which the client ends.

    Raises:
        DataError: no model or no time of commits is set, or a setting that the protocol lacks.

    """

    rate = 16_000
    key_scheme = "Bearer"

    def __init__(self, settings: SessionSettings) -> None:
        if settings.language is not None or settings.silence_seconds is not None:
            raise DataError(
                "expected no --language and no --silence with vllm, whose protocol has neither; "
                "leave them out"
            )
        if settings.model is None or settings.commit_seconds is None:
            raise DataError(
                "expected --model NAME and --commit SECONDS with vllm, whose clients name the "
                "model and end each utterance"
            )
        self._model = settings.model
        self._is_running = True  # a transcription; its audio would be dropped otherwise
        self._text = ""  # of it

    def address(self, url: str) -> str:
        """Return the address; that of a wlk-serve is below /vllm."""
        return f"{url}/v1/realtime"

    def opening(self) -> Iterator[str]:
        """Yield the name of the model, and the start of a transcription."""
        yield json.dumps({"type": "session.update", "model": self._model})
        yield self._start()

    def audio(self, samples: NDArray[np.float32]) -> Iterator[str]:
        """Yield an append, after the start of a transcription if the last one is complete."""
        if not self._is_running:
            self._is_running = True
            yield self._start()
        yield _append(samples)

    def commit(self) -> Iterator[str]:
        """Yield the end of the transcription."""
        yield json.dumps({"type": "input_audio_buffer.commit", "final": True})

    def closing(self) -> Iterator[str]:
        """Yield the end of the last transcription."""
        yield from self.commit()

    def read(self, message: dict[str, Any]) -> Iterator[Answer]:
        """Yield the deltas of a transcription, joined, and its text."""
        kind = message.get("type")
        if kind == "error":
            raise RefusedSession(f"the server refused: {message.get('error')}")
        if kind == "transcription.delta":
            self._text += message["delta"]
            yield Answer(self._text, is_final=False)
        elif kind == "transcription.done":
            self._text, self._is_running = "", False
            yield Answer(message["text"], is_final=True)

    def _start(self) -> str:
        return json.dumps({"type": "input_audio_buffer.commit"})


class WhisperLiveKit:
    """
    A session of whisperlivekit's /asr in mode "full"; text is final once it is part of a line.

    Raises:
        DataError: a silence or a commit is set, which the protocol does not have.

    """

    rate = 16_000
    key_scheme = "Bearer"

    def __init__(self, settings: SessionSettings) -> None:
        if settings.silence_seconds is not None or settings.commit_seconds is not None:
            raise DataError(
                "expected no --silence and no --commit with whisperlivekit, whose server decides "
                "when text is final; leave them out"
            )
        self._settings = settings
        self._lines: list[list[str]] = []  # the words of each line of the last state

    def address(self, url: str) -> str:
        """Return the address, whose query configures the session."""
        fields = {"language": self._settings.language, "model": self._settings.model}
        return f"{url}/asr?{_query({**fields, 'mode': 'full'})}"

    def opening(self) -> Iterator[str]:
        """Yield nothing."""
        yield from ()

    def audio(self, samples: NDArray[np.float32]) -> Iterator[bytes]:
        """Yield 16-bit samples."""
        yield _pcm(samples)

    def commit(self) -> Iterator[str]:
        """Yield nothing."""
        yield from ()

    def closing(self) -> Iterator[bytes]:
        """Yield an empty message, after which the server sends the rest."""
        yield b""

    def read(self, message: dict[str, Any]) -> Iterator[Answer]:
        """Yield the words that joined the lines, and those that may still change."""
        if error := message.get("error"):
            raise RefusedSession(f"the server refused: {error}")
        if message.get("type") == "config" and not message.get("useAudioWorklet"):
            raise RefusedSession(
                "the server expects WebM, which is not what this client sends; start it with "
                "--pcm-input"
            )
        if "lines" not in message:
            return
        lines = [line["text"].split() for line in message["lines"] if line["text"].strip()]
        added = _added_words(self._lines, lines)
        self._lines = lines or self._lines
        if added:
            yield Answer(" ".join(added), is_final=True)
        yield Answer(message["buffer_transcription"], is_final=False)


def _added_words(before: list[list[str]], lines: list[list[str]]) -> list[str]:
    """Return the words of *lines* after those of *before*, whose first lines may be left out."""
    now = [word for line in lines for word in line]
    for dropped in range(len(before) + 1):
        old = [word for line in before[dropped:] for word in line]
        if now[: len(old)] == old and (old or not before):
            return now[len(old) :]
    # The server rewrote a line, and its words are shown anew from the first that differs.
    old = [word for line in before for word in line]
    pairs = zip(old, now, strict=False)
    same = next((n for n, (was, word) in enumerate(pairs) if was != word), min(len(old), len(now)))
    return now[same:]


PROTOCOLS: Mapping[str, type[OpenAIRealtime | DeepgramListen | VllmRealtime | WhisperLiveKit]] = {
    "openai-realtime": OpenAIRealtime,
    "deepgram": DeepgramListen,
    "deepgram-flux": DeepgramFlux,
    "vllm": VllmRealtime,
    "whisperlivekit": WhisperLiveKit,
}


def _query(fields: Mapping[str, object]) -> str:
    return urlencode({name: value for name, value in fields.items() if value is not None})
