"""Usage of an endpoint: requests, and the seconds of audio in them."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
import threading
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Usage", "UsageMeter"]

_AUDIO_SECONDS: ContextVar[float] = ContextVar("_AUDIO_SECONDS", default=0.0)  # of the current call


@attrs.frozen(kw_only=True)
class Usage:
    """Attempts that reached an endpoint, and the seconds of audio in them."""

    requests: int = 0
    audio_seconds: float = 0.0


class UsageMeter:
    """
    Counts requests sent, including those that the client repeats; calls may come from any thread.

    An attempt counts from the first byte of its body, because the endpoint has accepted the
    connection by then and may process and bill a request whose response is lost.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._usage = Usage()

    @property
    def usage(self) -> Usage:
        """The usage so far."""
        return self._usage

    @contextmanager
    def sending(self, audio_seconds: float) -> Iterator[None]:
        """Attribute *audio_seconds* to every request that this thread makes inside."""
        token = _AUDIO_SECONDS.set(audio_seconds)
        try:
            yield
        finally:
            _AUDIO_SECONDS.reset(token)

    def watch(self, request: Any) -> None:
        """Count a request once it is sent; an event hook of the HTTP client."""
        request.extensions["trace"] = self._trace

    def _trace(self, event: str, info: dict[str, Any]) -> None:
        # https://www.encode.io/httpcore/extensions/#trace: event names begin with the protocol.
        if not event.endswith(".send_request_body.started"):
            return
        if info["request"].method == b"CONNECT":  # opens a tunnel through a proxy, without audio
            return
        with self._lock:
            self._usage = Usage(
                requests=self._usage.requests + 1,
                audio_seconds=self._usage.audio_seconds + _AUDIO_SECONDS.get(),
            )
