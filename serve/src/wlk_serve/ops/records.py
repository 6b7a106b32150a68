"""What is counted of one session, and the line that is logged at its end."""

from __future__ import annotations

from collections import deque
import logging
import math
import time
from typing import TYPE_CHECKING

from wlk_core.session.events import Commit, Endpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wlk_core.session.events import Event
    from wlk_serve.ops.metrics import Metrics

__all__ = ["SessionFigures"]

_LOGGER = logging.getLogger(__name__)
_MAX_LATENCIES = 1000  # the newest words, of which a percentile is logged


class SessionFigures:
    """The figures of one session: neither audio nor text.  They are counted in *metrics*, too."""

    def __init__(
        self,
        metrics: Metrics,
        *,
        protocol: str,
        session_id: str,
        key_id: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.metrics = metrics
        self.key_id = key_id
        self.words = 0
        self.audio_seconds = 0.0
        self._protocol = protocol
        self._received = metrics.audio_seconds.labels(protocol)
        self.session_id = session_id
        self._clock = clock
        self._began = clock()
        self._state = ""
        self._losses = 0
        self._latencies: deque[float] = deque(maxlen=_MAX_LATENCIES)
        self.set_state("connected")

    def set_state(self, state: str) -> None:
        """Count the session as "connected", as "waiting" for its client, or with "" no more."""
        if self._state:
            self.metrics.sessions.labels(self._protocol, self._state).dec()
        if state:
            self.metrics.sessions.labels(self._protocol, state).inc()
        self._losses += state == "waiting"
        self._state = state

    def add_audio(self, seconds: float) -> None:
        """Count audio that was received."""
        self.audio_seconds += seconds
        self._received.inc(seconds)

    def add_events(
        self, events: Iterable[Event], backlog_seconds: float, commits: deque[float]
    ) -> None:
        """
        Count the events of a step, after which so much audio waits.

        *commits* are the times of the stream's commits that are not completed yet; those that are
        completed now are removed.
        """
        self.metrics.backlog_seconds.observe(backlog_seconds)
        for event in events:
            match event:
                case Commit():
                    self.words += len(event.tokens)
                    for token in event.tokens:
                        latency = max(0.0, event.audio_time - token.end)
                        self._latencies.append(latency)
                        self.metrics.emission_latency.observe(latency)
                case Endpoint(reason="silence"):
                    self.metrics.final_latency.observe(max(0.0, event.audio_time - event.time))
                case Endpoint(reason="commit") if commits:
                    self.metrics.final_latency.observe(self._clock() - commits.popleft())

    def finish(self, outcome: str) -> None:
        """Log the line of the session; *outcome* is a close code, a status or "left"."""
        seconds = self._clock() - self._began
        self.set_state("")
        self.metrics.session_seconds.labels(self._protocol).observe(seconds)
        latency = "-"
        if self._latencies:
            index = math.ceil(0.95 * len(self._latencies)) - 1
            latency = f"{sorted(self._latencies)[index]:.2f}"
        _LOGGER.info(
            "session %s protocol=%s key=%s seconds=%.1f audio=%.1f words=%d losses=%d "
            "latency_p95=%s end=%s",
            self.session_id,
            self._protocol,
            self.key_id or "-",
            seconds,
            self.audio_seconds,
            self.words,
            self._losses,
            latency,
            outcome,
        )
