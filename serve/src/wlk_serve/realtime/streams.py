"""The seam between a protocol and the sessions of the core: what a protocol calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_core.audio.pcm import Encoding
    from wlk_serve.realtime.config import GateTimes

__all__ = ["AudioStream", "OpenStream", "StreamConfig", "StreamNotOpen"]


@attrs.frozen(kw_only=True)
class StreamConfig:
    """
    How a stream is opened.

    `gate` is None for the gate's own parameters.  Without `leaves_out_pauses` there is no gate and
    the model gets all audio, because the client has a gate of its own.
    """

    encoding: Encoding
    rate: int
    language: str | None
    prompt: str | None
    gate: GateTimes | None
    leaves_out_pauses: bool = True


class AudioStream(Protocol):
    """A session that something steps; none of its methods waits for the model."""

    def receive(self, audio: bytes) -> None:
        """Append audio; see `Session.receive`."""
        ...

    def commit(self) -> None:
        """End the utterance with the audio so far; see `Session.commit`."""
        ...

    def mark(self, name: str) -> None:
        """Request a `Marked` event; see `Session.mark`."""
        ...

    def end_audio(self) -> None:
        """Declare that no more audio will come."""
        ...

    def close(self) -> None:
        """Drop what was not transcribed; may be called again."""
        ...


class StreamNotOpen(Exception):  # noqa: N818 -- a request, as StopIteration is
    """
    A message of a client needs a stream, and opening one has to wait.

    A protocol passes it on and has changed nothing: its caller opens a stream of `config`, which
    may block, and applies the message again.
    """

    def __init__(self, config: StreamConfig) -> None:
        super().__init__(config)
        self.config = config


#: Returns a stream, raises WLKError where none can be opened, or StreamNotOpen.
OpenStream: TypeAlias = "Callable[[StreamConfig], AudioStream]"
