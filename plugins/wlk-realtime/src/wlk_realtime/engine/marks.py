"""The dialect of wlk-serve, which answers each mark with all that was decoded up to it."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_core.plugins import SAMPLE_RATE, WorkCounters
from wlk_realtime.engine.messages import (
    ROUNDING_SECONDS,
    Message,
    ServerMessageError,
    audio_input,
    parse,
    refusal_of,
    shortened,
    to_number,
    to_words,
)
from wlk_realtime.engine.requests import Decoded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wlk_core.plugins import Word
    from wlk_realtime.engine.requests import SessionConfig

MARKS = "wlk.marks"
_FORMAT = {"type": "audio/wlk-f32le", "rate": SAMPLE_RATE}
_COUNTERS = tuple(field.name for field in attrs.fields(WorkCounters))


class MarksDialect:
    """
    A session with a wlk-serve; docs/serve.md describes its messages.

    Every request ends with a mark, and the server answers with all that it decoded up to the mark.
    """

    def __init__(self, config: SessionConfig, *, model: str | None) -> None:
        self._config = config
        self._model = model
        self._sent_samples = 0
        self._sent_marks = 0
        self._answered_marks = 0
        #: whether the server has accepted the configuration
        self.is_ready = False
        self._words: tuple[Word, ...] = ()
        self._last_start = 0.0
        self._state = Decoded(language=config.language)

    def begin(self) -> list[str]:
        """Return the message that configures the session."""
        transcription: Message = {}
        if self._model is not None:
            transcription["model"] = self._model
        if self._config.language is not None:
            transcription["language"] = self._config.language
        if self._config.prompt:
            transcription["prompt"] = self._config.prompt
        audio = {"format": _FORMAT, "turn_detection": None, "transcription": transcription}
        session = {"type": "transcription", "audio": {"input": audio}, "include": [MARKS]}
        return [json.dumps({"type": "session.update", "session": session})]

    @property
    def is_answered(self) -> bool:
        """Whether the server has answered the last mark."""
        return self._answered_marks == self._sent_marks

    def send(self, audio: NDArray[np.float32], *, is_last: bool) -> list[str]:
        """Return an append, a commit if an utterance ends, and a mark."""
        messages: list[Message] = []
        if len(audio):
            data = np.ascontiguousarray(audio, dtype="<f4").tobytes()
            text = base64.b64encode(data).decode("ascii")
            messages.append({"type": "input_audio_buffer.append", "audio": text})
            self._sent_samples += len(audio)
        if is_last:
            messages.append({"type": "input_audio_buffer.commit"})
        self._sent_marks += 1
        messages.append({"type": "wlk.mark", "id": str(self._sent_marks)})
        return [json.dumps(message) for message in messages]

    def receive(self, text: str | bytes) -> list[str]:
        """Apply a message; deltas and items are ignored, because marks contain more."""
        message = parse(text)
        match message["type"]:
            case "session.updated":
                self._check_session(message.get("session"))
            case "wlk.marked":
                self._apply(message)
            case kind if kind == "error" or kind.endswith("transcription.failed"):
                raise refusal_of(message.get("error"))
        return []

    def take(self) -> Decoded:
        """Return the words since the last call, with the latest hypothesis and counters."""
        words, self._words = self._words, ()
        return attrs.evolve(self._state, words=words)

    def _check_session(self, session: Any) -> None:
        source = audio_input(session)
        audio_format = source.get("format") if isinstance(source, dict) else None
        if audio_format != _FORMAT or MARKS not in (session.get("include") or []):
            raise ServerMessageError(f"expected a session with {MARKS}, got {shortened(session)}")
        self.is_ready = True

    def _apply(self, message: Message) -> None:
        latest = self._sent_samples / SAMPLE_RATE
        name = message.get("id")
        if name != str(self._answered_marks + 1) or self.is_answered:
            expected = f"mark {self._answered_marks + 1} of {self._sent_marks}"
            raise ServerMessageError(f"expected {expected}, got {shortened(name)}")
        records: Any = message.get("tokens")
        words = to_words(records, floor=self._last_start, latest=latest)
        codes = [record.get("language") for record in records]
        languages = [code for code in codes if isinstance(code, str) and code]
        start = words[-1].start if words else self._last_start
        hypothesis = to_words(message.get("hypothesis"), floor=start, latest=latest)
        seconds = to_number(message.get("processed_up_to"))
        earliest = self._state.processed_samples / SAMPLE_RATE
        if seconds is None or not earliest - 1e-6 <= seconds <= latest + ROUNDING_SECONDS:
            raise ServerMessageError(
                f"expected processed_up_to as a time from {earliest:.3f} to {latest:.3f} s, got "
                f"{shortened(message.get('processed_up_to'))}"
            )
        processed = round(seconds * SAMPLE_RATE)
        stats = message.get("stats")
        items = stats.items() if isinstance(stats, dict) else ()
        counters = {name: n for name, n in items if isinstance(n, int) and n >= 0}
        self._answered_marks += 1
        self._last_start = start
        self._words += words
        self._state = Decoded(
            hypothesis=hypothesis,
            processed_samples=min(processed, self._sent_samples),
            language=languages[-1] if languages else self._state.language,
            work=WorkCounters(**{name: counters.get(name) for name in _COUNTERS}),
            state_bytes=counters.get("state_bytes"),
            misplaced_words=counters.get("misplaced_words") or 0,
        )
