"""The first messages of a server that is no wlk-serve: its dialect, and what it can do."""

from __future__ import annotations

from typing import TypeAlias

from wlk_realtime.engine.messages import (
    Message,
    ServerMessageError,
    ServerRefusalError,
    parse,
    refusal_of,
    shortened,
)
from wlk_realtime.engine.openai import OpenAiProbe, OpenAiServer
from wlk_realtime.engine.vllm.probe import VllmProbe
from wlk_realtime.engine.vllm.server import VllmServer

__all__ = ["Handshake", "Server"]

_GREETINGS = ("session.created", "transcription_session.created")

Server: TypeAlias = OpenAiServer | VllmServer


class Handshake:
    """
    Find out the dialect of a server from its greeting, and what it can do from its answers.

    Args:
        dialect: "auto", or "openai" or "vllm", which must then be that of the greeting.
        model: its name at the server, None for the only one.
        max_model_len: as the list of models declares it.

    """

    def __init__(self, dialect: str, *, model: str | None, max_model_len: int | None) -> None:
        self._dialect = dialect
        self._model = model
        self._max_model_len = max_model_len
        self._probe: VllmProbe | OpenAiProbe | None = None

    @property
    def server(self) -> Server:
        """What was found out; only when ready."""
        if self._probe is None or self._probe.server is None:
            raise AssertionError("the handshake has ended")
        return self._probe.server

    def begin(self) -> list[str]:
        """Return nothing, because the server sends the first message."""
        return []

    @property
    def is_ready(self) -> bool:
        """Whether the handshake has ended."""
        return self._probe is not None and self._probe.server is not None

    def receive(self, text: str | bytes) -> list[str]:
        """Apply a message; return the messages to send."""
        message = parse(text)
        if self._probe is not None:
            return self._probe.receive(message)
        if message["type"] == "error":
            raise refusal_of(message.get("error"))
        self._probe = self._probe_for(message)
        return self._probe.begin()

    def _probe_for(self, greeting: Message) -> VllmProbe | OpenAiProbe:
        session = greeting.get("session")
        if greeting["type"] not in _GREETINGS:
            raise ServerMessageError(f"expected session.created first, got {shortened(greeting)}")
        dialect = "openai" if isinstance(session, dict) else "vllm"
        if self._dialect not in ("auto", dialect):
            raise ServerRefusalError(
                f"it greets in the dialect {dialect}; leave the option dialect out",
                is_retryable=False,
            )
        if isinstance(session, dict):
            is_flat = "audio" not in session and "input_audio_transcription" in session
            return OpenAiProbe(OpenAiServer(model=self._model, is_flat=is_flat))
        if self._model is None:
            raise ServerMessageError("it lists no model; add its name to the address, #NAME")
        return VllmProbe(self._model, max_model_len=self._max_model_len)
