"""The WebSocket of a Realtime session: one reader, one writer, one protocol object."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from typing import TYPE_CHECKING

from starlette.websockets import WebSocketDisconnect

from wlk_serve.protocols.openai_realtime import RealtimeProtocol
from wlk_serve.send_queue import SendQueue

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

    from wlk_core.session.events import Event
    from wlk_serve.protocols.realtime_config import RealtimeConfig
    from wlk_serve.protocols.streams import StreamConfig
    from wlk_serve.service import Service, SessionStream

__all__ = ["RealtimeSocket"]

_LOGGER = logging.getLogger(__name__)

_DONE, _RESTART, _BROKEN, _OVERLOADED = 1000, 1012, 1011, 1013  # close codes of RFC 6455
_GONE = (OSError, WebSocketDisconnect)  # what a client that leaves raises
_SEND_SECONDS = 10.0  # for one message
_MOST_WAITING_SECONDS = 60.0  # of audio, before the socket is no longer read
_POLL_SECONDS = 0.05  # while it is not read
_SUBPROTOCOL = "realtime"


class RealtimeSocket:
    """Runs one session over a socket, until the client leaves or the session is over."""

    def __init__(
        self,
        socket: WebSocket,
        service: Service,
        *,
        max_seconds: float,
        is_beta: bool,
        config: RealtimeConfig,
    ) -> None:
        self._socket = socket
        self._service = service
        self._max_seconds = max_seconds
        self._queue = SendQueue()
        self._streams: list[SessionStream] = []
        self._close_code = _DONE
        self._protocol = RealtimeProtocol(
            service.card,
            self._open_stream,
            new_id=lambda prefix: f"{prefix}_{secrets.token_hex(12)}",
            expires_at=int(time.time() + max_seconds),
            is_beta=is_beta,
            config=config,
        )

    async def run(self) -> None:
        """Accept the connection, serve it and close it."""
        offered = self._socket.scope.get("subprotocols", [])
        await self._socket.accept(_SUBPROTOCOL if _SUBPROTOCOL in offered else None)
        self._queue.put(self._protocol.begin())
        reader = asyncio.create_task(self._read())
        writer = asyncio.create_task(self._write())
        try:
            await asyncio.wait(
                {reader, writer}, timeout=self._max_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if not reader.done() and not writer.done():  # the session has lasted long enough
                self._protocol.end()
                self._stop_if_over()
                await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._protocol.close()
            is_gone = reader.done()
            for task in (reader, writer):
                task.cancel()
            for error in await asyncio.gather(reader, writer, return_exceptions=True):
                if isinstance(error, Exception) and not isinstance(error, _GONE):
                    _LOGGER.error("a session failed", exc_info=error)
                    self._close_code, is_gone = _BROKEN, False
            if not is_gone:
                await self._close()

    def end(self) -> None:
        """Take no more audio, deliver the last words and close for a restart of the server."""
        self._close_code = _RESTART
        self._protocol.end()
        self._stop_if_over()

    async def _close(self) -> None:
        code = self._close_code
        if self._protocol.has_failed:
            code = _BROKEN
        elif self._queue.is_full:
            code = _OVERLOADED
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                await self._socket.close(code)
        except (*_GONE, RuntimeError):
            pass  # TimeoutError is an OSError: the client is gone

    async def _read(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            data = message.get("text")
            answers = self._protocol.receive(message.get("bytes") or b"" if data is None else data)
            self._queue.put(answers)
            # Unread, so that TCP slows the client down; a step without events wakes no task.
            while self._backlog_seconds() > _MOST_WAITING_SECONDS:  # noqa: ASYNC110 -- as above
                await asyncio.sleep(_POLL_SECONDS)

    async def _write(self) -> None:
        while (text := await self._queue.get()) is not None:
            try:
                async with asyncio.timeout(_SEND_SECONDS):
                    await self._socket.send_text(text)
            except TimeoutError:
                self._close_code = _OVERLOADED
                return

    def _open_stream(self, config: StreamConfig) -> SessionStream:
        stream = self._service.open_stream(config, self._handle)
        self._streams = [*(old for old in self._streams if old.backlog_seconds), stream]
        return stream

    def _handle(self, stream: SessionStream, events: list[Event]) -> None:
        try:
            self._queue.put(self._protocol.handle(stream, events))
        except Exception:
            self._close_code = _BROKEN
            self._queue.close()
            raise  # to the scheduler, which logs it
        self._stop_if_over()

    def _stop_if_over(self) -> None:
        if self._protocol.is_over:
            self._queue.close()

    def _backlog_seconds(self) -> float:
        return sum(stream.backlog_seconds for stream in self._streams)
