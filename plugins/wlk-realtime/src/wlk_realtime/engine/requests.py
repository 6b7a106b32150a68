"""The requests of a stream, what a server answers, and the protocol between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

from wlk_core.plugins import WorkCounters

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.plugins import Word


@attrs.frozen(kw_only=True)
class SessionConfig:
    """How a session at the server is opened; `prompt` is the text before its audio."""

    language: str | None = None
    prompt: str = ""


@attrs.frozen
class ServerProgress:
    """The stream has the first `words` words that connection number `connection` returned."""

    connection: int = 0
    words: int = 0


@attrs.frozen(kw_only=True)
class Request:
    """
    Decode an utterance up to sample `stop`; the same request may be made again.

    Attributes:
        utterance: its number in the stream, from 0.
        first: the first sample of it that the stream still holds.
        stop: the sample after the last one to decode.
        is_last: whether the utterance ends there, so that all of its words are final.
        audio: returns the samples from one number to another, float32[n], valid during the call.
        progress: the words that the stream has.
        tail: the last words of the utterance that the stream has: all that share the latest end.
        config: how a new session is opened.

    """

    utterance: int
    first: int
    stop: int
    is_last: bool
    audio: Callable[[int, int], NDArray[np.float32]]
    progress: ServerProgress = attrs.field(factory=ServerProgress)
    tail: tuple[Word, ...] = ()
    config: SessionConfig = attrs.field(factory=SessionConfig)


@attrs.frozen(kw_only=True)
class Decoded:
    """
    What a server decoded since the last time.

    A dialect counts from the begin of its session, an answer from that of the utterance.

    Attributes:
        words: final words that the stream has not seen, in seconds.
        hypothesis: words that may still change, in seconds.
        processed_samples: samples that the model has consumed.
        language: the code detected or forced, None while unknown.
        work: the counters of the session.
        state_bytes: bytes that the server holds for the session, None if unknown.
        misplaced_words: words of the session that the engine put outside of its audio.
        progress: the words that the stream has, `words` included.

    """

    words: tuple[Word, ...] = ()
    hypothesis: tuple[Word, ...] = ()
    processed_samples: int = 0
    language: str | None = None
    work: WorkCounters = attrs.field(factory=WorkCounters)
    state_bytes: int | None = None
    misplaced_words: int = 0
    progress: ServerProgress = attrs.field(factory=ServerProgress)


class Conversation(Protocol):
    """
    Messages that open a session, without input and output.

    `receive` raises ServerMessageError for anything that such a server never sends, and
    ServerRefusalError where the server reports an error.
    """

    def begin(self) -> list[str]:
        """Return the messages that open the session."""
        ...

    def receive(self, text: str | bytes) -> list[str]:
        """Apply a message of the server; return the messages to send."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether the session is open."""
        ...


class Dialect(Conversation, Protocol):
    """One session in the messages of a kind of server; one request at a time."""

    def send(self, audio: NDArray[np.float32], *, is_last: bool) -> list[str]:
        """Return the messages that append *audio* and, with `is_last`, end the utterance."""
        ...

    @property
    def is_answered(self) -> bool:
        """Whether the server has decoded what was sent."""
        ...

    def take(self) -> Decoded:
        """Return what was decoded since the last call."""
        ...
