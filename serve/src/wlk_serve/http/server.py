"""Uvicorn with the settings of this server, and a shutdown that delivers the last words."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import uvicorn

from wlk_serve.http.connections import (
    HttpConnection,
    RealtimeConnection,
    backlog_of,
    log_lack_of_files,
    most_connections,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    import socket
    from types import FrameType

    from wlk_serve.app import Server

__all__ = ["DrainingServer"]

_MAX_MESSAGE_BYTES = 21 << 20  # an append of 15 MiB of audio is 20 MiB of base64
_NOT_WORTH_A_LINE = (
    "without completing handshake",  # of every WebSocket that is refused
    "Invalid UTF-8 sequence received",  # with a traceback; the client gets 1007
)
_LAST_SECONDS = 10  # after the drain, for connections that do not end by themselves


class DrainingServer(uvicorn.Server):
    """
    A server that drains before it stops.

    Uvicorn itself closes every WebSocket as soon as a shutdown begins.  Here the first signal lets
    running sessions end, for up to `drain_seconds`, and then delivers their last words; a second
    signal stops at once.

    Args:
        server: the application and its sessions.
        host: the address to listen on.
        port: the port; 0 picks one.
        drain_seconds: how long sessions may go on after the first signal.
        on_ready: called with the port when connections are accepted.

    """

    def __init__(
        self,
        server: Server,
        *,
        host: str,
        port: int,
        drain_seconds: float,
        on_ready: Callable[[int], object],
    ) -> None:
        connections = most_connections()
        config = uvicorn.Config(
            server.app,
            host=host,
            port=port,
            http=HttpConnection,
            ws=RealtimeConnection,
            backlog=backlog_of(connections),
            limit_concurrency=connections,
            timeout_graceful_shutdown=_LAST_SECONDS,
            ws_max_size=_MAX_MESSAGE_BYTES,
            ws_per_message_deflate=False,  # base64 of audio does not shrink
            access_log=False,  # query strings may contain keys
            log_level="error",
            lifespan="off",
            server_header=False,
        )
        super().__init__(config)
        logging.getLogger("uvicorn.error").addFilter(_is_worth_a_line)
        self._served = server
        self._drain_seconds = drain_seconds
        self._on_ready = on_ready
        self._loop: asyncio.AbstractEventLoop | None = None
        self._drain: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then report the port."""
        self._loop = asyncio.get_running_loop()
        log_lack_of_files(self._loop)
        await super().startup(sockets)
        if self.started:
            self._on_ready(self.servers[0].sockets[0].getsockname()[1])

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain on the first signal, stop at once on the second."""
        if self._loop is None or self._drain is not None or self._served.sessions.is_draining:
            super().handle_exit(sig, frame)
            return
        self._loop.call_soon_threadsafe(self.begin_drain)

    def begin_drain(self) -> None:
        """Refuse new sessions, end those that run and stop; call it in the event loop."""
        if self._drain is None:
            self._drain = asyncio.get_running_loop().create_task(self._drain_and_stop())

    async def _drain_and_stop(self) -> None:
        await self._served.sessions.drain(self._drain_seconds)
        self.should_exit = True


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """Leave out what uvicorn 0.54 writes of clients that are answered properly."""
    return not any(part in record.getMessage() for part in _NOT_WORTH_A_LINE)
