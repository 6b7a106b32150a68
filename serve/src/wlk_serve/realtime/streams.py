"""How a Realtime session opens the sessions of the core."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from wlk_core.audio.pcm import Encoding

__all__ = ["GateTimes", "StreamConfig"]


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
