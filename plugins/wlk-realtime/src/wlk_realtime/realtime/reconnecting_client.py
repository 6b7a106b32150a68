"""Make the requests of one stream, over a connection that is opened again when it was lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from wlk_realtime.engine.remote_stream import RemoteStream
from wlk_realtime.realtime.connection import Connection
from wlk_realtime.realtime.errors import EXPECTED_ERRORS, backend_error, is_transient

if TYPE_CHECKING:
    from wlk_realtime.engine.requests import Decoded, Request
    from wlk_realtime.realtime.address import Endpoint
    from wlk_realtime.realtime.declaration import Declaration

__all__ = ["ReconnectingClient"]

_FIRST_PAUSE, _MAX_PAUSE = 0.05, 1.0  # seconds between attempts to connect again


class ReconnectingClient:
    """
    Makes the requests of one stream; use it in one event loop.

    A connection that is lost during a request fails that request.  The next one connects again, for
    as long as its time lasts, because a server that restarts is away for seconds.

    Args:
        endpoint: where the server listens.
        declaration: what it declares.

    """

    def __init__(self, endpoint: Endpoint, declaration: Declaration) -> None:
        self._endpoint = endpoint
        self._declaration = declaration
        self._connection: Connection | None = None
        self._remote: RemoteStream | None = None
        self._connections = 0  # opened so far

    @property
    def is_open(self) -> bool:
        """Whether there is a connection to close."""
        return self._connection is not None

    async def ask(self, request: Request) -> Decoded:
        """
        Return the answer to *request*, which may be made again after a failure.

        Raises:
            BackendError: there is no connection, it was lost, or the answer is malformed.

        """
        try:
            async with asyncio.timeout(self._endpoint.timeout_seconds):
                return await self._ask(request)
        except EXPECTED_ERRORS as error:
            await self._drop()
            raise backend_error(error, self._endpoint) from error
        except BaseException:
            await self._drop()
            raise

    async def close(self) -> None:
        """Close the connection properly."""
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
        """Connect; the failure of a first attempt is final, because the address may be wrong."""
        pause = _FIRST_PAUSE
        while True:
            dialect = self._declaration.new_dialect(
                request.config, model=self._endpoint.address.model
            )
            try:
                self._connection = await Connection.open(self._endpoint, dialect)
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
        """Abandon the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.abort()
