"""The WebSocket of a Realtime session: one reader, one writer, and the code it closes with."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING

from starlette.websockets import WebSocketDisconnect

from wlk_serve.realtime.session import BROKEN, OVERLOADED

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

    from wlk_serve.errors import RequestError
    from wlk_serve.realtime.send_queue import SendQueue
    from wlk_serve.realtime.session import RealtimeSession

__all__ = ["accept", "refuse", "serve_session"]

_LOGGER = logging.getLogger(__name__)

_GONE = (OSError, WebSocketDisconnect)  # what a client that leaves raises
_LOST = 1006  # the close code of a socket that ended without one
_SEND_SECONDS = 10.0  # for one message
# Of audio, before the socket is no longer read.  A client that sends a recording at once may ping,
# and give up after 20 s without an answer, because its ping waits unread after its audio.  One more
# append of 15 MiB is below what a session takes.
_MOST_WAITING_SECONDS = 400.0
_POLL_SECONDS = 0.05  # while it is not read
_SUBPROTOCOL = "realtime"


async def accept(socket: WebSocket) -> None:
    """Accept the connection with the subprotocol that browsers need."""
    offered = socket.scope.get("subprotocols", [])
    await socket.accept(_SUBPROTOCOL if _SUBPROTOCOL in offered else None)


async def refuse(socket: WebSocket, error: RequestError, code: int) -> None:
    """Send *error* to an accepted connection and close it with *code*."""
    message = {"type": "error", "error": {**error.record(), "event_id": None}}
    try:
        async with asyncio.timeout(_SEND_SECONDS):
            await socket.send_text(json.dumps(message))
            await socket.close(code)
    except (*_GONE, RuntimeError):
        pass  # TimeoutError is an OSError: the client is gone


async def serve_session(socket: WebSocket, session: RealtimeSession, queue: SendQueue) -> None:
    """
    Read and write an accepted *socket* until the client leaves or the session is over.

    *queue* is what the session returned when the socket was attached to it.
    """
    await _Connection(socket, session, queue).run()


class _Connection:
    def __init__(self, socket: WebSocket, session: RealtimeSession, queue: SendQueue) -> None:
        self._socket = socket
        self._session = session
        self._queue = queue
        self._client_code: int | None = None

    async def run(self) -> None:
        reader = asyncio.create_task(self._read())
        writer = asyncio.create_task(self._write())
        try:
            await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (reader, writer):
                task.cancel()
            for error in await asyncio.gather(reader, writer, return_exceptions=True):
                if isinstance(error, _GONE):
                    self._client_code = self._client_code or _LOST
                elif isinstance(error, Exception):
                    _LOGGER.error("a session failed", exc_info=error)
                    self._session.fail()
            code = self._code()
            self._session.detach(self._queue, self._client_code)
            if self._client_code is None:
                await self._close(code)

    def _code(self) -> int:
        if self._queue.close_code is not None:
            return self._queue.close_code
        if self._queue.is_full:
            self._session.record.metrics.send_queue_full.inc()
            return OVERLOADED
        return BROKEN if self._session.protocol.has_failed else self._session.close_code

    async def _close(self, code: int) -> None:
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                await self._socket.close(code)
        except (*_GONE, RuntimeError):
            pass  # TimeoutError is an OSError: the client is gone

    async def _read(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                self._client_code = message.get("code", _LOST)
                return
            text = message.get("text")
            data = message.get("bytes") or b"" if text is None else text
            await self._session.receive(self._queue, data)
            await self._queue.room()
            # Unread, so that TCP slows the client down; a step without events wakes no task.
            while self._session.backlog_seconds > _MOST_WAITING_SECONDS:  # noqa: ASYNC110
                await asyncio.sleep(_POLL_SECONDS)

    async def _write(self) -> None:
        while (text := await self._queue.get()) is not None:
            try:
                async with asyncio.timeout(_SEND_SECONDS):
                    await self._socket.send_text(text)
            except TimeoutError:
                self._queue.is_full = True  # the client reads nothing
                return
