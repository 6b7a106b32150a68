"""The requests of a stream, the answers to them, and the protocols that a dialect implements."""

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
    """How to open a session at the server; an empty `prompt` is none."""

    language: str | None = None
    prompt: str = ""


@attrs.frozen
class ServerProgress:
    """The stream has received the first `words` words of connection number `connection`."""

    connection: int = 0
    words: int = 0


@attrs.frozen(kw_only=True)
class Request:
    """
    A request to decode an utterance up to `end_sample`; it can be repeated.

    Attributes:
        utterance: its number in the stream, from 0.
        first_sample: the first sample of the utterance that the stream still holds.
        end_sample: the sample after the last one to decode.
        is_last: whether the utterance ends there, which makes all its words final.
        audio: returns the samples from a start to an end, float32[n], valid during the call.
        progress: the words that the stream has received.
        tail: the last words of the utterance that the stream has: all that share the latest end.
        config: how to open a new session if one is needed.

    """

    utterance: int
    first_sample: int
    end_sample: int
    is_last: bool
    audio: Callable[[int, int], NDArray[np.float32]]
    progress: ServerProgress = attrs.field(factory=ServerProgress)
    tail: tuple[Word, ...] = ()
    config: SessionConfig = attrs.field(factory=SessionConfig)


@attrs.frozen(kw_only=True)
class Decoded:
    """
    What a server decoded since the last request.

    Times from a `Dialect` start at its session; those of an answer start at the utterance.

    Attributes:
        words: final words that the stream has not received yet, in seconds.
        hypothesis: words that may still change, in seconds.
        processed_samples: samples that the model has consumed.
        language: the forced or detected code, None while unknown.
        work: the work counters of the session.
        state_bytes: bytes that the server holds for the session, None if unknown.
        misplaced_words: words of the session that the engine placed outside of its audio.
        progress: the words that the stream has received, including `words`.

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
    The messages that open a session, without input or output.

    `receive` raises ServerMessageError if a message is malformed or unexpected, and
    ServerRefusalError if the server reports an error.
    """

    def begin(self) -> list[str]:
        """Return the messages that open the session."""
        ...

    def receive(self, text: str | bytes) -> list[str]:
        """Apply a message from the server; return the messages to send."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether the session is open."""
        ...


class Dialect(Conversation, Protocol):
    """One session in the protocol of one kind of server; it handles one request at a time."""

    def send(self, audio: NDArray[np.float32], *, is_last: bool) -> list[str]:
        """Return the messages that append *audio* and, if `is_last`, end the utterance."""
        ...

    @property
    def is_answered(self) -> bool:
        """Whether the server has answered all that was sent."""
        ...

    def take(self) -> Decoded:
        """Return what the server has decoded since the last call."""
        ...
