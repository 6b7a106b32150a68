"""Uvicorn's connections, with an end to waiting: for a request, for a reader, for a close."""

from __future__ import annotations

import errno
from http import HTTPStatus
import json
import logging
import socket
from typing import TYPE_CHECKING, Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from wlk_serve.errors import RequestError, error_response

if TYPE_CHECKING:
    import asyncio

    from starlette.types import Receive, Scope, Send
    from uvicorn.protocols.http.h11_impl import RequestResponseCycle

__all__ = [
    "HttpConnection",
    "RealtimeConnection",
    "backlog_of",
    "log_lack_of_files",
    "most_connections",
]

_LOGGER = logging.getLogger(__name__)

_MOST_BACKLOG = 256  # connects that wait to be accepted; asyncio accepts as many at a time
_LEAST_BACKLOG = 16
_REQUEST_SECONDS = 30.0  # from the first byte, or the connect, to the last header
_REFUSAL_SECONDS = 5.0  # the same where there are too many connections
_STALL_SECONDS = 30.0  # in which a client of HTTP must read 48 kB
_LINGER_SECONDS = 10.0  # for a client that still sends, until it has read why it was refused
_LAST_SECONDS = 300.0  # for a client that reads slowly, until it has read what was sent
_SEND_BYTES = 1 << 16  # of a socket in the kernel, which doubles it; else it grows to megabytes
_RECEIVE_BYTES = 1 << 17  # the same of what arrives: pings wait after it while audio is not read
_HIGH_BYTES = 1 << 14  # of a socket in this process, before a send waits
_MOST_CONNECTIONS = 1 << 16
_RETRY_SECONDS = 5
_LACK = {errno.EMFILE, errno.ENFILE}
_LOG_SECONDS = 10.0  # between two lines about the same lack


def most_connections() -> int:
    """
    Return how many connections are answered: half of the files that this process may open.

    The other half is for uploads, models, and connects that arrive at the same moment.
    """
    try:
        import resource  # noqa: PLC0415 -- not on Windows
    except ImportError:
        return _MOST_CONNECTIONS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_limited = 0 <= files < 2 * _MOST_CONNECTIONS
    return files // 2 if is_limited else _MOST_CONNECTIONS


def backlog_of(connections: int) -> int:
    """Return how many connects may wait, so that those of a moment fit beside *connections*."""
    return min(_MOST_BACKLOG, max(_LEAST_BACKLOG, connections // 4))


class HttpConnection(H11Protocol):
    """
    A connection of HTTP whose waits all have an end.

    A request has 30 s to arrive with its headers, also the next one of a connection, and a client
    30 s to read part of an answer.  Bytes that are no HTTP are answered by an error object.  More
    connections than the limit of the configuration are answered with 503, also those that ask for
    a WebSocket; a quarter more are closed at once.
    """

    _waiting: asyncio.TimerHandle | None = None
    _stalling: asyncio.TimerHandle | None = None
    _is_refused = False
    _is_leaving = False
    _has_bytes = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request."""
        super().connection_made(transport)
        most = self.config.limit_concurrency or _MOST_CONNECTIONS
        if len(self.connections) > most + most // 4:
            transport.abort()
        elif len(self.connections) >= most:
            self._is_refused = True
            self.app = _refuse_connection
            self.limit_concurrency = None  # else uvicorn answers, without an error object
        self._wait_for_request()

    def data_received(self, data: bytes) -> None:
        """Parse *data*; the time for a request ends with its last header."""
        if self._is_leaving:
            return
        self._has_bytes = True
        super().data_received(data)
        is_upgraded = self.transport.get_protocol() is not self
        if is_upgraded or self._answer is not None:
            self._stop_waiting()
        elif self._waiting is None and not self._is_leaving:
            self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._stop_waiting()
        self._stop_stalling()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Give the client a time to read."""
        super().pause_writing()
        self._stop_stalling()
        self._stalling = self.loop.call_later(_STALL_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on; the client has read."""
        self._stop_stalling()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no request."""
        del msg  # uvicorn's own
        self._leave(
            RequestError("expected a request of HTTP/1.1 without TLS", code="invalid_request")
        )

    def _should_upgrade(self) -> bool:
        return not self._is_refused and super()._should_upgrade()

    def _wait_for_request(self) -> None:
        seconds = _REFUSAL_SECONDS if self._is_refused else _REQUEST_SECONDS
        self._waiting = self.loop.call_later(seconds, self._end_waiting)

    def _end_waiting(self) -> None:
        self._waiting = None
        if not self._has_bytes:
            self.transport.close()
            return
        message = f"no whole request came in {_REQUEST_SECONDS:g} s"
        self._leave(RequestError(message, status=408, code="timeout"))

    def _leave(self, error: RequestError) -> None:
        """Answer with *error* if an answer may begin, and close when the client has read it."""
        self._stop_waiting()
        may_answer = self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}
        if self.transport.is_closing() or not may_answer:
            self.transport.close()
            return
        if (answer := self._answer) is not None:  # of a request whose body is broken
            answer.disconnected = True
            answer.message_event.set()
        self._is_leaving = True
        self.transport.write(_http_bytes(error))
        _end_writing(self.transport)
        self._waiting = self.loop.call_later(_LINGER_SECONDS, self.transport.abort)

    @property
    def _answer(self) -> RequestResponseCycle | None:
        """The answer that is being made."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return None if cycle is None or cycle.response_complete else cycle

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _stop_stalling(self) -> None:
        if self._stalling is not None:
            self._stalling.cancel()
            self._stalling = None


class RealtimeConnection(WebSocketsSansIOProtocol):
    """
    A WebSocket whose close frame arrives, and that holds little for a client that reads slowly.

    A message that is too large is read to its end and dropped: closing a socket with unread bytes
    resets it, and the close frame with its reason would be lost.
    """

    _is_leaving = False
    _received = 0  # pieces of data

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Bound what waits for the client."""
        super().connection_made(transport)
        self.transport.set_write_buffer_limits(_HIGH_BYTES)
        found = self.transport.get_extra_info("socket")
        if found is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
            found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)

    def data_received(self, data: bytes) -> None:
        """Parse *data*, or drop it after an error."""
        self._received += 1
        if not self._is_leaving:
            super().data_received(data)

    async def send(self, message: Any) -> None:
        """Send *message*; a close frame does not wait for a client that reads slowly."""
        if message["type"] == "websocket.send" and self.transport.is_closing():
            raise ClientDisconnected  # before asyncio reports it: it logs each write until then
        is_slow = message["type"] == "websocket.close" and not self.writable.is_set()
        if is_slow:
            self.writable.set()
        await super().send(message)
        if is_slow:
            self._leave(_LAST_SECONDS)

    def handle_parser_exception(self) -> None:
        """Close because of a message that is no message, or too large."""
        sent = self.conn.close_sent
        if sent is not None:
            event = {"type": "websocket.disconnect", "code": sent.code, "reason": sent.reason}
            self.queue.put_nowait(cast("Any", event))
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self._leave(_LINGER_SECONDS)

    def send_keepalive_ping(self) -> None:
        """Remember what had come before the ping."""
        self._received = 0
        super().send_keepalive_ping()

    def keepalive_timeout(self) -> None:
        """
        Close, unless the client lives.

        Its answer may wait after audio that is not read yet.
        """
        if self.read_paused or self._received:
            self.pong_timer = self.pending_ping_payload = None
            self.schedule_ping()
            return
        super().keepalive_timeout()
        self.loop.call_later(self.close_timeout, self.transport.abort)

    def _leave(self, seconds: float) -> None:
        """Close when the client has read what was sent, or after *seconds*."""
        if self.close_timer is not None:
            self.close_timer.cancel()
        self._is_leaving = True
        _end_writing(self.transport)
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self.close_timer = self.loop.call_later(seconds, self.transport.abort)


def log_lack_of_files(loop: asyncio.AbstractEventLoop) -> None:
    """
    Let *loop* write one line in ten seconds where no file is free for a connection.

    By itself asyncio writes a traceback for every attempt to accept one, 256 in a second.
    """
    last = -_LOG_SECONDS

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal last
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _LACK:
            loop.default_exception_handler(context)
        elif loop.time() - last >= _LOG_SECONDS:
            last = loop.time()
            _LOGGER.error(
                "no file is free for another connection; connects wait until one is, or raise "
                "the limit with LimitNOFILE= or ulimit -n"
            )

    loop.set_exception_handler(handle)


async def _refuse_connection(scope: Scope, receive: Receive, send: Send) -> None:
    error = RequestError(
        "more connections are open than are answered; try again later",
        status=503,
        code="server_overloaded",
        retry_after=_RETRY_SECONDS,
    )
    response = error_response(error)
    response.headers["connection"] = "close"
    await response(scope, receive, send)


def _http_bytes(error: RequestError) -> bytes:
    """Return an answer that closes the connection."""
    body = json.dumps({"error": error.record()}).encode()
    head = (
        f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}",
        "content-type: application/json",
        f"content-length: {len(body)}",
        "connection: close",
    )
    return "\r\n".join((*head, "", "")).encode() + body


def _end_writing(transport: asyncio.Transport) -> None:
    if transport.can_write_eof() and not transport.is_closing():
        transport.write_eof()
