"""Make the requests of one stream over a WebSocket; reconnect after it was lost."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from wlk_realtime.engine.messages import ServerMessageError
from wlk_realtime.engine.remote_stream import RemoteStream
from wlk_realtime.realtime.errors import EXPECTED_ERRORS, backend_error, is_transient

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_realtime.engine.requests import Conversation, Decoded, Dialect, Request, SessionConfig
    from wlk_realtime.realtime.address import ServerAccess

_MAX_MESSAGE_BYTES = 16 << 20
_CLOSE_SECONDS = 2.0
_FIRST_PAUSE, _MAX_PAUSE = 0.05, 1.0  # seconds between attempts to reconnect


class _Connect(connect):
    """Follow no redirects: key and audio go only to the address that the user named."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class Connection:
    """
    One session over one socket: a task reads messages, and callers in its event loop await them.

    An error in the reader task ends the connection: `error` keeps it, and every later call raises
    it.  If it is not one of EXPECTED_ERRORS, it becomes the cause of a ServerMessageError, because
    a message from the server triggered it.
    """

    def __init__(self, socket: ClientConnection, conversation: Conversation) -> None:
        self._socket = socket
        self._conversation = conversation
        self._changed = asyncio.Event()
        self.error: Exception | None = None
        self._reader = asyncio.create_task(self._read())
        self._reader.add_done_callback(self._end)

    @classmethod
    async def open(cls, access: ServerAccess, conversation: Conversation) -> Connection:
        """
        Connect and open the session; the caller sets a timeout.

        Raises:
            any of EXPECTED_ERRORS.

        """
        address = access.address
        tls: dict[str, Any] = (
            {"ssl": access.tls} if address.is_encrypted and access.tls is not None else {}
        )
        socket = await _Connect(
            address.url,
            additional_headers=access.headers,
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
        """Send *messages* in order."""
        if self.error is not None:
            raise self.error
        for message in messages:
            await self._socket.send(message)

    async def wait_until(self, is_done: Callable[[], bool]) -> None:
        """Return once *is_done* returns true; it is called after every message received."""
        while not is_done():
            if self.error is not None:
                raise self.error
            self._changed.clear()
            await self._changed.wait()

    async def close(self) -> None:
        """Close the socket with a closing handshake."""
        with suppress(*EXPECTED_ERRORS):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._socket.close()
        await self.abort()

    async def abort(self) -> None:
        """Close the socket immediately, without a closing handshake."""
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
        """Keep the error that ended the reader: without it, callers would wait forever."""
        error = None if reader.cancelled() else reader.exception()
        if isinstance(error, (*EXPECTED_ERRORS, ConnectionClosed)):
            self.error = error
        elif error is not None:
            self.error = ServerMessageError(
                f"a message that cannot be applied ({type(error).__name__}: {error})"
            )
            self.error.__cause__ = error
        self._changed.set()


class ReconnectingClient:
    """
    Makes the requests of one stream; use it in one event loop.

    A request fails if its connection is lost.  The next request reconnects, retrying until it times
    out, because a server takes seconds to restart.

    Args:
        access: how to reach the server.
        new_dialect: opens a session in the server's dialect.

    """

    def __init__(
        self, access: ServerAccess, new_dialect: Callable[[SessionConfig], Dialect]
    ) -> None:
        self._access = access
        self._new_dialect = new_dialect
        self._connection: Connection | None = None
        self._remote: RemoteStream | None = None
        self._connections = 0  # opened so far

    @property
    def is_open(self) -> bool:
        """Whether there is a connection to close."""
        return self._connection is not None

    async def ask(self, request: Request) -> Decoded:
        """
        Return the answer to *request*; after a failure the same request can be made again.

        Raises:
            BackendError: connecting failed, the connection was lost, the server refused the
                request, or its answer is malformed.

        """
        try:
            async with asyncio.timeout(self._access.timeout_seconds):
                return await self._ask(request)
        except EXPECTED_ERRORS as error:
            await self._drop()
            raise backend_error(error, self._access) from error
        except BaseException:
            await self._drop()
            raise

    async def close(self) -> None:
        """Close the connection with a closing handshake."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _ask(self, request: Request) -> Decoded:
        connection, remote = self._connection, self._remote
        is_usable = connection is not None and connection.error is None
        if connection is None or remote is None or not is_usable or not remote.fits(request):
            await self._drop()
            connection, remote = await self._connect(request)
        await connection.send(remote.send(request))
        await connection.wait_until(lambda: remote.is_answered)
        return remote.answer(request)

    async def _connect(self, request: Request) -> tuple[Connection, RemoteStream]:
        """Connect; retry only if this client has connected before: its address is then right."""
        pause = _FIRST_PAUSE
        while True:
            dialect = self._new_dialect(request.config)
            try:
                self._connection = await Connection.open(self._access, dialect)
            except EXPECTED_ERRORS as error:
                if not self._connections or not is_transient(error):
                    raise
            else:
                self._connections += 1
                self._remote = RemoteStream(dialect, number=self._connections)
                return self._connection, self._remote
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE)

    async def _drop(self) -> None:
        """Abort the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.abort()
