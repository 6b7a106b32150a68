"""The events of a session, in the order in which they happen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from wlk_core.processor import StreamStats
    from wlk_core.session.latency import LatencySummary
    from wlk_core.tokens import ASRToken, Silence, Transcript

__all__ = ["Commit", "End", "Event", "HypothesisChange", "SilenceSpan"]


@attrs.frozen
class Commit:
    """Text became final.  `audio_time` is the stream time of the audio received by then."""

    tokens: tuple[ASRToken, ...]
    audio_time: float


@attrs.frozen
class HypothesisChange:
    """The hypothesis changed; an empty transcript means that no text can change any more."""

    transcript: Transcript
    audio_time: float


@attrs.frozen
class SilenceSpan:
    """A pause ended; its audio was not given to the model."""

    silence: Silence
    audio_time: float


@attrs.frozen(kw_only=True)
class End:
    """
    The session is over and everything is committed.

    Attributes:
        audio_time: the length of the stream in seconds.
        stats: the processor's counters after its last step, before it releases its state.
        latency: emission latency of the committed words, None where there were none.
        wall_seconds: how long the session took, waiting for real time included.

    """

    audio_time: float
    stats: StreamStats
    latency: LatencySummary | None
    wall_seconds: float


Event = Commit | HypothesisChange | SilenceSpan | End
