"""Metrics for Prometheus, and the log line of each session."""

from __future__ import annotations

from collections import deque
from importlib.metadata import version
import logging
import platform
import time
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)

from wlk_live.session.events import Commit, Endpoint, Failure
from wlk_serve.errors import as_request_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wlk_live.session.events import Event
    from wlk_serve.errors import RequestError

_LOGGER = logging.getLogger(__name__)
_MAX_LATENCIES = 1000  # of the newest words, whose 95th percentile is logged
_REFUSALS = {401, 403, 429, 503}  # statuses of valid requests that are not allowed, or not now
_LATENCY_BUCKETS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30)  # seconds
_STEP_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)  # seconds
_BACKLOG_BUCKETS = (0, 0.5, 1, 2, 5, 10, 30, 60, 120, 900)  # seconds of audio
_SESSION_BUCKETS = (0.1, 0.5, 1, 5, 10, 60, 300, 1800, 7200, 21_600)  # seconds


class Metrics:
    """The metrics of one server; may be updated from any thread."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        own: Any = {"namespace": "wlk", "registry": self._registry}
        self.sessions = Gauge("sessions", "Sessions", ("protocol", "state"), **own)
        self.session_seconds = Histogram(
            "session_seconds", "Length of sessions", ("protocol",), buckets=_SESSION_BUCKETS, **own
        )
        self.audio_seconds = Counter("audio_seconds", "Audio received", ("protocol",), **own)
        self.backlog_seconds = Histogram(
            "backlog_seconds", "Audio not yet decoded", buckets=_BACKLOG_BUCKETS, **own
        )
        self.emission_latency = Histogram(
            "emission_latency_seconds",
            "Audio between the end of a word and its commit",
            buckets=_LATENCY_BUCKETS,
            **own,
        )
        self.final_latency = Histogram(
            "final_latency_seconds",
            "Time from the end of speech to the completed item",
            buckets=_LATENCY_BUCKETS,
            **own,
        )
        self.lateness = Gauge("lateness_seconds", "99th percentile of the lateness of steps", **own)
        self.step_seconds = Histogram(
            "step_seconds", "Duration of steps", buckets=_STEP_BUCKETS, **own
        )
        self.send_queue_full = Counter(
            "ws_outbox_full", "Sockets closed because their client is too slow", **own
        )
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        build = {"version": version("wlk-serve"), "python": platform.python_version()}
        Info("build", "Versions of the server", **own).info(build)
        self.errors = Counter("errors", "Errors", ("code",), **own)
        self._rejected = Counter("rejected", "Refusals", ("reason",), **own)

    def counted(self, error: Exception) -> RequestError:
        """Return the answer to *error*, after counting its code as a refusal or an error."""
        answer = as_request_error(error)
        metric = self._rejected if answer.status in _REFUSALS else self.errors
        metric.labels(answer.code or "none").inc()
        if answer.status in _REFUSALS:
            fields = {"status": answer.status, "code": answer.code}
            _LOGGER.info("refused %(status)s %(code)s", fields, extra={"fields": fields})
        return answer

    def render(self) -> tuple[bytes, str]:
        """Return the text of all metrics and its media type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST


@attrs.define(eq=False, kw_only=True)
class SessionFigures:
    """Figures of one session, without its audio or text; also counted in *metrics*."""

    metrics: Metrics
    _protocol: str
    session_id: str
    key_id: str
    _clock: Callable[[], float] = time.monotonic
    words: int = 0
    audio_seconds: float = 0.0
    _state: str = ""
    _losses: int = 0
    _samples: int = 0
    _began: float = attrs.field(init=False)
    _latencies: deque[float] = attrs.field(factory=lambda: deque(maxlen=_MAX_LATENCIES))

    def __attrs_post_init__(self) -> None:
        self._began = self._clock()
        self.set_state("connected")

    def set_state(self, state: str) -> None:
        """Count the session as "connected" or as "waiting" for its client; "" ends the count."""
        if self._state:
            self.metrics.sessions.labels(self._protocol, self._state).dec()
        if state:
            self.metrics.sessions.labels(self._protocol, state).inc()
        if state == "waiting":
            self._losses += 1
        self._state = state

    def add_audio(self, seconds: float) -> None:
        """Count received audio."""
        self.audio_seconds += seconds
        self.metrics.audio_seconds.labels(self._protocol).inc(seconds)

    def count_audio(self, samples: int, rate: int) -> None:
        """Count audio received since the last call; *samples* is the number since the beginning."""
        seconds = (samples - self._samples) / rate
        self._samples = samples
        self.audio_seconds += seconds
        self.metrics.audio_seconds.labels(self._protocol).inc(seconds)

    def add_events(
        self, events: Iterable[Event], backlog_seconds: float, commits: deque[float]
    ) -> None:
        """
        Count the events of a step, and the backlog after it.

        *commits* are the times of the stream's commits whose endpoints have not come yet; the times
        of those that these events answer are removed.
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
                case Failure(is_final=True):
                    self.metrics.errors.labels("engine_failed").inc()
                case Failure(annotator=str()):
                    self.metrics.errors.labels("annotator_failed").inc()
                case Endpoint(reason="commit") if commits:
                    self.metrics.final_latency.observe(self._clock() - commits.popleft())

    def finish(self, outcome: str) -> None:
        """Log the session; *outcome* is a close code, an HTTP status or "left"."""
        seconds = self._clock() - self._began
        self.set_state("")
        self.metrics.session_seconds.labels(self._protocol).observe(seconds)
        latency = None
        if self._latencies:
            p95 = np.percentile(self._latencies, 95, method="inverted_cdf")
            latency = round(float(p95), 2)
        fields = {
            "session": self.session_id,
            "protocol": self._protocol,
            "key": self.key_id or None,
            "seconds": round(seconds, 1),
            "audio": round(self.audio_seconds, 1),
            "words": self.words,
            "losses": self._losses,
            "latency_p95": latency,
            "end": outcome,
        }
        shown = {name: "-" if value is None else value for name, value in fields.items()}
        _LOGGER.info(
            "session %(session)s protocol=%(protocol)s key=%(key)s seconds=%(seconds)s "
            "audio=%(audio)s words=%(words)s losses=%(losses)s latency_p95=%(latency_p95)s "
            "end=%(end)s",
            shown,
            extra={"fields": fields},
        )
