"""Detect the dialect of a server other than wlk-serve, and what it supports."""

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
from wlk_realtime.engine.openai import OpenAiDialect, OpenAiServer
from wlk_realtime.engine.vllm import VllmProbe, VllmServer

_GREETINGS = ("session.created", "transcription_session.created")

ForeignServer: TypeAlias = OpenAiServer | VllmServer


class Handshake:
    """
    Detect the dialect from the server's greeting, then open a session as a stream would.

    Args:
        dialect: "auto", or the dialect that the greeting must have, "openai" or "vllm".
        model: the name of the model at the server; None if neither user nor server named one.
        max_model_len: the value in the server's list of models, None if unknown.

    """

    def __init__(self, dialect: str, *, model: str | None, max_model_len: int | None) -> None:
        self._dialect = dialect
        self._model = model
        self._max_model_len = max_model_len
        self._openai = OpenAiServer(model=model)
        self._probe: VllmProbe | OpenAiDialect | None = None

    @property
    def server(self) -> ForeignServer:
        """The properties of the server; valid once `is_ready`."""
        if isinstance(self._probe, VllmProbe) and self._probe.server is not None:
            return self._probe.server
        return self._openai

    def begin(self) -> list[str]:
        """Return nothing, because the server sends the first message."""
        return []

    @property
    def is_ready(self) -> bool:
        """Whether the handshake has ended."""
        return self._probe is not None and self._probe.is_ready

    def receive(self, text: str | bytes) -> list[str]:
        """Apply a message; return the messages to send."""
        if self._probe is None:
            self._probe = self._probe_for(parse(text))
            return self._probe.begin()
        return self._probe.receive(text)

    def _probe_for(self, greeting: Message) -> VllmProbe | OpenAiDialect:
        if greeting["type"] == "error":
            raise refusal_of(greeting.get("error"))
        if greeting["type"] not in _GREETINGS:
            raise ServerMessageError(f"expected session.created first, got {shortened(greeting)}")
        session = greeting.get("session")
        dialect = "openai" if isinstance(session, dict) else "vllm"
        if self._dialect not in ("auto", dialect):
            raise ServerRefusalError(
                f"it greets in the dialect {dialect}; leave the option dialect out",
                is_retryable=False,
            )
        if isinstance(session, dict):
            is_flat = "audio" not in session and "input_audio_transcription" in session
            self._openai = OpenAiServer(model=self._model, is_flat=is_flat)
            return OpenAiDialect(self._openai)
        if self._model is None:
            raise ServerMessageError("it lists no model; append the model to the address: #NAME")
        return VllmProbe(self._model, max_model_len=self._max_model_len)
