"""The limits of one call: its time, attempts and pauses included, and the length of an answer."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
import time
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MAX_ANSWER_BYTES", "MAX_ERROR_BYTES", "CallLimits", "CallTimeout", "bound_connections"]

# No request has more than 30 s of audio: a thousand words in JSON, each of them twice, are 200 KB.
MAX_ANSWER_BYTES = 1 << 20  # after decompression
MAX_ERROR_BYTES = 1 << 16  # of an error's body, from which one line is quoted
WRITE_BYTES = 1 << 14  # sent between two looks at the clock


class CallTimeout(TimeoutError):  # noqa: N818 -- as the TimeoutError it is
    """The call has no time left."""


@attrs.frozen
class CallLimits:
    """The time by which a call ends, on the monotonic clock."""

    stop_time: float

    @classmethod
    def of_seconds(cls, seconds: float) -> CallLimits:
        """Return the limits of a call that begins now."""
        return cls(time.monotonic() + seconds)

    @property
    def seconds_left(self) -> float:
        """The time that the call still has, below 0 once it is over."""
        return self.stop_time - time.monotonic()

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Apply the limits to every connection that this thread uses inside."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)


_CURRENT: ContextVar[CallLimits | None] = ContextVar("_CURRENT", default=None)  # of this thread


def bound_connections(http: Any) -> None:
    """
    Let every read and write of an HTTP client end with the call that it belongs to.

    The timeouts of the HTTP library count for one read or write each, so that a server which sends
    a byte from time to time would hold a call for ever.
    """
    # The connection pools have a public parameter for this, which the client does not pass on.
    for transport in (http._transport, *http._mounts.values()):  # noqa: SLF001
        if transport is not None:
            pool = transport._pool  # noqa: SLF001
            pool._network_backend = _BoundedBackend(pool._network_backend)  # noqa: SLF001


def _bounded(timeout: float | None) -> float | None:
    """
    Return *timeout*, no longer than the call lasts.

    Raises:
        CallTimeout: the call is over.

    """
    limits = _CURRENT.get()
    if limits is None:
        return timeout
    left = limits.seconds_left
    if left <= 0:
        raise CallTimeout("the call has no time left")
    return left if timeout is None else min(timeout, left)


@attrs.frozen
class _BoundedStream:
    """A network stream of the HTTP library whose operations end with the call."""

    _stream: Any

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return bytes(self._stream.read(max_bytes, timeout=_bounded(timeout)))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for first in range(0, len(buffer), WRITE_BYTES):
            self._stream.write(buffer[first : first + WRITE_BYTES], timeout=_bounded(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> _BoundedStream:
        limit = _bounded(timeout)
        return _BoundedStream(self._stream.start_tls(ssl_context, server_hostname, limit))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


@attrs.frozen
class _BoundedBackend:
    """What opens connections for the HTTP library, each of them bounded."""

    _backend: Any

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, **options: Any
    ) -> _BoundedStream:
        stream = self._backend.connect_tcp(host, port, timeout=_bounded(timeout), **options)
        return _BoundedStream(stream)

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, **options: Any
    ) -> _BoundedStream:
        stream = self._backend.connect_unix_socket(path, timeout=_bounded(timeout), **options)
        return _BoundedStream(stream)

    def sleep(self, seconds: float) -> None:
        self._backend.sleep(seconds)
