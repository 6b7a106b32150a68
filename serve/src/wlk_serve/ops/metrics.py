"""What the server counts for Prometheus."""

from __future__ import annotations

from importlib.metadata import version
import platform
from typing import TYPE_CHECKING, Any

import prometheus_client as library

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_serve.errors import RequestError

__all__ = ["Metrics"]

_REFUSALS = {401, 403, 429, 503}  # of requests that are right but may not be made, or not now
_LATENCY_BUCKETS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30)  # seconds
_STEP_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)  # seconds
_BACKLOG_BUCKETS = (0, 0.5, 1, 2, 5, 10, 30, 60, 120, 900)  # seconds of audio
_SESSION_BUCKETS = (0.1, 0.5, 1, 5, 10, 60, 300, 1800, 7200, 21_600)  # seconds


class Metrics:
    """The metrics of one server; may be updated from any thread."""

    def __init__(self) -> None:
        self._registry = library.CollectorRegistry()

        def new(kind: Any, name: str, about: str, labels: Sequence[str] = (), **more: Any) -> Any:
            return kind(f"wlk_{name}", about, labels, registry=self._registry, **more)

        def histogram(name: str, about: str, buckets: Sequence[float], *labels: str) -> Any:
            return new(library.Histogram, name, about, labels, buckets=buckets)

        self.sessions = new(library.Gauge, "sessions", "Sessions", ("protocol", "state"))
        self.session_seconds = histogram(
            "session_seconds", "Length of sessions", _SESSION_BUCKETS, "protocol"
        )
        self.audio_seconds = new(library.Counter, "audio_seconds", "Audio received", ("protocol",))
        self.backlog_seconds = histogram("backlog_seconds", "Audio that waits", _BACKLOG_BUCKETS)
        self.emission_latency = histogram(
            "emission_latency_seconds",
            "Audio from the end of a word until it was committed",
            _LATENCY_BUCKETS,
        )
        self.final_latency = histogram(
            "final_latency_seconds",
            "From the end of speech to the completed item",
            _LATENCY_BUCKETS,
        )
        self.lateness = new(
            library.Gauge,
            "lateness_seconds",
            "How long after its deadline one step in a hundred ends",
        )
        self.step_seconds = histogram("step_seconds", "Steps of sessions", _STEP_BUCKETS)
        self.send_queue_full = new(
            library.Counter, "ws_outbox_full", "Sockets closed because their client is too slow"
        )
        library.ProcessCollector(registry=self._registry)
        library.GCCollector(registry=self._registry)
        build = {"version": version("wlk-serve"), "python": platform.python_version()}
        new(library.Info, "build", "Versions of the server").info(build)
        self._errors = new(library.Counter, "errors", "Errors", ("code",))
        self._rejected = new(library.Counter, "rejected", "Refusals", ("reason",))

    def count_error(self, error: RequestError) -> None:
        """Count *error* as a refusal or as an error, by its code."""
        metric = self._rejected if error.status in _REFUSALS else self._errors
        metric.labels(error.code or "none").inc()

    def count_error_code(self, code: str | None) -> None:
        """Count an error that was sent over a socket."""
        self._errors.labels(code or "none").inc()

    def render(self) -> tuple[bytes, str]:
        """Return the text of all metrics and its media type."""
        return library.generate_latest(self._registry), library.CONTENT_TYPE_LATEST
