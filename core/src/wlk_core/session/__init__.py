"""A session: audio of a file or a pipe through an online processor, told as events."""

from __future__ import annotations

from wlk_core.session.events import Commit, End, Event, HypothesisChange, SilenceSpan
from wlk_core.session.latency import Latencies, LatencySummary
from wlk_core.session.pipeline import transcribe_stream

__all__ = [
    "Commit",
    "End",
    "Event",
    "HypothesisChange",
    "Latencies",
    "LatencySummary",
    "SilenceSpan",
    "transcribe_stream",
]
