"""Hold a session over one WebSocket: a task reads, and callers wait for what it read."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from wlk_realtime.engine.messages import ServerMessageError
from wlk_realtime.realtime.errors import EXPECTED_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_realtime.engine.requests import Conversation
    from wlk_realtime.realtime.address import Endpoint

__all__ = ["Connection"]

_MAX_MESSAGE_BYTES = 16 << 20
_CLOSE_SECONDS = 2.0


class _Connect(connect):
    """Follows no redirect, because key and audio go to the address that was named."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class Connection:
    """
    A session over one socket; use it in one event loop.

    Any of EXPECTED_ERRORS ends it: `error` has the first one, and every call raises it.  Any other
    error of its reader is the cause of a ServerMessageError, because a message brought it about.
    """

    def __init__(self, socket: ClientConnection, conversation: Conversation) -> None:
        self._socket = socket
        self._conversation = conversation
        self._changed = asyncio.Event()
        self.error: Exception | None = None
        self._reader = asyncio.create_task(self._read())
        self._reader.add_done_callback(self._end)

    @classmethod
    async def open(cls, endpoint: Endpoint, conversation: Conversation) -> Connection:
        """
        Connect and open the session; the caller bounds the time.

        Raises:
            one of EXPECTED_ERRORS.

        """
        address = endpoint.address
        tls: dict[str, Any] = (
            {"ssl": endpoint.tls} if address.is_encrypted and endpoint.tls is not None else {}
        )
        socket = await _Connect(
            address.url,
            additional_headers=endpoint.headers,
            compression=None,  # base64 of audio does not shrink
            open_timeout=None,
            close_timeout=_CLOSE_SECONDS,
            max_size=_MAX_MESSAGE_BYTES,
            proxy=None if address.is_local else True,
            **tls,
        )
        connection = cls(socket, conversation)
        try:
            await connection.send(conversation.begin())
            await connection.wait_until(lambda: conversation.is_ready)
        except BaseException:
            await connection.abort()
            raise
        return connection

    async def send(self, messages: list[str]) -> None:
        """Send *messages* in their order."""
        if self.error is not None:
            raise self.error
        for message in messages:
            await self._socket.send(message)

    async def wait_until(self, is_done: Callable[[], bool]) -> None:
        """Return once *is_done* is true, which is tried after each message."""
        while not is_done():
            if self.error is not None:
                raise self.error
            self._changed.clear()
            await self._changed.wait()

    async def close(self) -> None:
        """Close the socket properly."""
        with suppress(*EXPECTED_ERRORS):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._socket.close()
        await self.abort()

    async def abort(self) -> None:
        """Drop the socket at once."""
        self._reader.cancel()
        self._socket.transport.abort()
        await asyncio.wait({self._reader}, timeout=_CLOSE_SECONDS)

    async def _read(self) -> None:
        while True:
            text = await self._socket.recv()
            for message in self._conversation.receive(text):
                await self._socket.send(message)
            self._changed.set()

    def _end(self, reader: asyncio.Task[None]) -> None:
        """Keep what ended the reader, whatever it is, because every call would wait in vain."""
        error = None if reader.cancelled() else reader.exception()
        if isinstance(error, (*EXPECTED_ERRORS, ConnectionClosed)):
            self.error = error
        elif error is not None:
            self.error = ServerMessageError(
                f"a message that cannot be applied ({type(error).__name__}: {error})"
            )
            self.error.__cause__ = error
        self._changed.set()
