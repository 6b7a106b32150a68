"""What a protocol needs of the sessions of the core: how they are opened, and their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    from wlk_core.audio.pcm import Encoding

__all__ = ["AudioStream", "GateTimes", "StreamConfig"]


@attrs.frozen(kw_only=True)
class GateTimes:
    """The parameters of a SilenceGate: two probabilities, and three lengths in seconds."""

    threshold: float
    quiet_threshold: float
    pre_roll: float
    hang_over: float
    min_silence: float


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
