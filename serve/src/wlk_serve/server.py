"""Run uvicorn on sockets that are bound early, and drain the sessions before it stops."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, contextmanager, nullcontext
import errno
from functools import partial
import logging
import os
import signal
import socket
import ssl
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from wlk_core.errors import OptionError, WLKError
from wlk_serve.blocking_work import LARGE_MESSAGE, BlockingWork

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
    from concurrent.futures import Future
    from types import FrameType

    from websockets.frames import Frame

    from wlk_serve.app import Server

_MAX_MESSAGE_BYTES = 21 << 20  # an append of 15 MiB of audio is 20 MiB of base64
_IGNORED_LOGS = (
    "without completing handshake",  # logged for every WebSocket that is refused
    "Invalid UTF-8 sequence received",  # logged with a traceback; the client gets 1007
)
_LINGER_SECONDS = 10.0  # between closing a client that answers no ping and aborting its connection
# Bytes read from a socket in one turn of the event loop; fewer after a read that took longer than
# _READ_SECONDS.  Frames can be small: 4 KiB of pings block the event loop for 5 ms, per socket, and
# the 256 KiB that asyncio reads by default for 0.8 s.
_MIN_READ_BYTES, _MAX_READ_BYTES = 64, 4096
_READ_SECONDS = 0.0005
# Connections that asyncio accepts in one turn: accepting 256 blocked the event loop for 60 ms.
_MAX_ACCEPTED = 16
_MAX_UNACCEPTED = 1024  # waiting in the kernel; further clients try again after a second
_LAST_SECONDS = 10  # after the drain, for connections that do not end by themselves


class DrainingServer(uvicorn.Server):
    """
    A server on sockets that are already bound, which drains before it stops.

    Uvicorn itself closes every WebSocket as soon as a shutdown begins.  Here the first signal gives
    running sessions up to `drain_seconds` to end, and then delivers their last words; a second
    signal stops at once.

    Args:
        listeners: the sockets of protocols without HTTP, by protocol name.
        on_ready: called with the port as soon as connections are accepted.
        tls: what HTTP and WebSockets are encrypted with; the listeners have no TLS.

    """

    def __init__(
        self,
        server: Server,
        *,
        drain_seconds: float,
        listeners: Mapping[str, Iterable[socket.socket]] | None = None,
        on_ready: Callable[[int], object],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        config = uvicorn.Config(
            server.app,
            http="h11",
            ws=cast("type[asyncio.Protocol]", partial(_WebSocket, joins=BlockingWork())),
            timeout_graceful_shutdown=_LAST_SECONDS,
            backlog=_MAX_ACCEPTED,
            ws_max_size=_MAX_MESSAGE_BYTES,
            ws_per_message_deflate=False,  # base64 of audio does not shrink
            access_log=False,  # query strings may contain keys
            log_level="error",
            lifespan="off",
            server_header=False,
            ssl_context_factory=None if tls is None else lambda *_: tls,
        )
        super().__init__(config)
        logging.getLogger("uvicorn.error").addFilter(_is_worth_logging)
        self._served = server
        self._drain_seconds = drain_seconds
        self._listeners = listeners or {}
        self._on_ready = on_ready
        self._loop: asyncio.AbstractEventLoop | None = None
        self._drain: Future[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then report the port."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self.started:
            for bound in sockets or ():
                bound.listen(_MAX_UNACCEPTED)
            for name, listeners in self._listeners.items():
                handler = partial(self._serve_tcp, self._served.tcp_handlers[name])
                self.servers += [await asyncio.start_server(handler, sock=s) for s in listeners]
            self._on_ready(self.servers[0].sockets[0].getsockname()[1])

    def _serve_tcp(self, handler: Callable[..., Coroutine[Any, Any, None]], *streams: Any) -> None:
        task = asyncio.create_task(handler(*streams))
        self.server_state.tasks.add(task)  # uvicorn's shutdown waits for these tasks
        task.add_done_callback(self.server_state.tasks.discard)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain on the first signal, stop at once on the second."""
        if self._loop is None:
            super().handle_exit(sig, frame)
            return
        if self._drain is not None or self._served.sessions.is_draining:
            signal.signal(sig, signal.SIG_DFL)  # an orderly shutdown would wait for the engine
            signal.raise_signal(sig)
        self._drain = asyncio.run_coroutine_threadsafe(self._drain_and_stop(), self._loop)

    async def _drain_and_stop(self) -> None:
        await self._served.sessions.drain(self._drain_seconds)
        self.should_exit = True


class _WebSocket(WebSocketsSansIOProtocol, asyncio.BufferedProtocol):
    """Uvicorn's WebSocket, read in small parts and only while its client reads what it is sent."""

    _reads = 0  # since the last ping

    def __init__(self, *args: Any, joins: BlockingWork, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._joins = joins  # rations the joining of large messages across all sockets
        self._read_timer: asyncio.TimerHandle | None = None  # until a large message may be joined

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._buffer = memoryview(bytearray(_MAX_READ_BYTES))
        self._read_bytes = _MIN_READ_BYTES

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 -- asyncio's signature
        return self._buffer[: self._read_bytes]

    def buffer_updated(self, nbytes: int) -> None:
        self._take(bytes(self._buffer[:nbytes]))

    def _take(self, data: bytes) -> None:
        is_large = len(self.conn.reader.buffer) + sum(map(len, self.frames)) > LARGE_MESSAGE
        if is_large and (seconds := self._joins.pause_left) > 0:
            # This part may be the last one, after which websockets joins the message.
            self.transport.pause_reading()
            self._read_timer = self.loop.call_later(seconds, self._take_delayed, data)
            return
        began = self.loop.time()
        with self._joins.measured() if is_large else nullcontext():
            self.data_received(data)
        is_slow = self.loop.time() - began > _READ_SECONDS
        read_bytes = self._read_bytes // 2 if is_slow else self._read_bytes * 2
        self._read_bytes = min(max(read_bytes, _MIN_READ_BYTES), _MAX_READ_BYTES)

    def _take_delayed(self, data: bytes) -> None:
        self._read_timer = None
        try:
            self._take(data)
        except BaseException:
            self.transport.abort()  # as asyncio does when it calls us itself
            raise
        self._read_again()

    def shutdown(self) -> None:
        # After a client's close frame, the base class raises and so ends the server's shutdown.
        if self.transport.is_closing():
            self.stop_keepalive()
        else:
            super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._reads += 1
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            # On over 128 headers, a line over 8 KiB or a body, websockets only stores an error.
            self.transport.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")
            self.transport.close()

    def pause_writing(self) -> None:
        # A client may send pings without reading: unsent pongs would fill the memory.
        super().pause_writing()
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._read_again()

    def _read_again(self) -> None:
        if self.writable.is_set() and not (self.read_paused or self._read_timer):
            self.transport.resume_reading()

    async def receive(self) -> Any:
        await self.writable.wait()  # because the base class resumes reading here
        return await super().receive()

    def handle_cont(self, event: Frame) -> None:
        # Join fragments as they arrive: in a list, those of two bytes took thirty times their size.
        parts: list[Any] = self.frames  # holds one item: bytes, or a bytearray after a join
        if not isinstance(parts[0], bytearray):
            parts[0] = bytearray(parts[0])
        parts[0] += event.data
        if event.fin:
            self.frames = [bytes(parts[0])]
            self.send_receive_event_to_app()

    def send_keepalive_ping(self) -> None:
        self._reads = 0
        super().send_keepalive_ping()

    def keepalive_timeout(self) -> None:
        # A client may send a whole recording at once.  Its pong then waits for minutes behind audio
        # that is read as fast as it is decoded; unread or new bytes prove that the client is alive.
        if self.writable.is_set() and (self.read_paused or self._read_timer or self._reads):
            self.pong_timer = self.pending_ping_payload = None
            self.schedule_ping()
        else:
            super().keepalive_timeout()
            self.loop.call_later(_LINGER_SECONDS, self.transport.abort)


@contextmanager
def bound_sockets(host: str, port: int) -> Iterator[list[socket.socket]]:
    """
    Bind a socket to each address of *host* and close the sockets at the end; none listens yet.

    Loading a model can take minutes, during which connections are refused.  All addresses share one
    port, even if *port* is 0 and the system picks it.

    Raises:
        WLKError: the host has no address on this machine, or another program has the port.

    """
    sockets: list[socket.socket] = []
    with ExitStack() as stack:
        try:
            for family, kind, protocol, _, address in socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            ):
                bound = stack.enter_context(socket.socket(family, kind, protocol))
                if os.name == "posix":  # otherwise connections that just ended block the port
                    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                port = port or (sockets[0].getsockname()[1] if sockets else 0)
                bound.bind((address[0], port, *address[2:]))
                sockets.append(bound)
        except OSError as error:
            reason = error.strerror or error
            if error.errno == errno.EADDRINUSE:
                reason = "another program uses it"
            raise WLKError(
                f"cannot listen on port {port} of {host}: {reason}; choose another with --host or "
                "--port (0 picks a free one)"
            ) from error
        yield sockets


def tls_context(certificate: str, key: str | None) -> ssl.SSLContext:
    """Return the TLS of a server; OptionError unless the files are a certificate and its key."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # Without a password, OpenSSL would ask for that of an encrypted key on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except OSError as error:  # SSLError is one
        raise OptionError(
            "expected PEM files of a certificate and of its key without a password, got "
            f"--tls-certificate {certificate} and --tls-key {key or 'none'}: {error}"
        ) from error
    return context


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """Leave out what uvicorn 0.54 logs about clients that were answered properly."""
    return not any(part in record.getMessage() for part in _IGNORED_LOGS)
