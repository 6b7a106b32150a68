"""What was sent to an endpoint: requests, and the seconds of audio in them."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
import threading
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Cost", "Meter"]

_SENDING: ContextVar[float] = ContextVar("_SENDING", default=0.0)  # seconds of the audio of a call


@attrs.frozen(kw_only=True)
class Cost:
    """What was sent: attempts that an endpoint took, and the seconds of audio in them."""

    requests: int = 0
    audio_seconds: float = 0.0


class Meter:
    """
    Counts what leaves, attempts that the client repeats by itself too; calls from any thread.

    An attempt counts from the first byte of its body on: by then the connection was accepted, and
    what is lost behind that may have been heard and billed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cost = Cost()

    @property
    def cost(self) -> Cost:
        """What was sent so far."""
        return self._cost

    @contextmanager
    def sending(self, audio_seconds: float) -> Iterator[None]:
        """Take every request that this thread makes inside for one with so much audio."""
        token = _SENDING.set(audio_seconds)
        try:
            yield
        finally:
            _SENDING.reset(token)

    def watch(self, request: Any) -> None:
        """Count a request of the HTTP library once it leaves; an event hook of its client."""
        request.extensions["trace"] = self._trace

    def _trace(self, event: str, given: dict[str, Any]) -> None:
        # https://www.encode.io/httpcore/extensions/#trace: the name begins with the protocol's.
        if not event.endswith(".send_request_body.started"):
            return
        if given["request"].method == b"CONNECT":  # asks a proxy for the way, and holds no audio
            return
        with self._lock:
            self._cost = Cost(
                requests=self._cost.requests + 1,
                audio_seconds=self._cost.audio_seconds + _SENDING.get(),
            )
