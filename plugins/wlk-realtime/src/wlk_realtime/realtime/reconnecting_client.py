"""Make the requests of one stream, over a connection that is opened again when it was lost."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from wlk_realtime.engine.remote_stream import RemoteStream
from wlk_realtime.realtime.child import ServerAwayError
from wlk_realtime.realtime.connection import Connection
from wlk_realtime.realtime.declaration import Declaration
from wlk_realtime.realtime.errors import (
    EXPECTED_ERRORS,
    backend_error,
    is_transient,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_core.plugins import BackendError
    from wlk_realtime.engine.requests import Decoded, Request
    from wlk_realtime.realtime.address import Endpoint
    from wlk_realtime.realtime.server import Server

__all__ = ["ReconnectingClient"]

_FIRST_PAUSE, _MAX_PAUSE = 0.05, 1.0  # seconds between attempts to connect again


class ReconnectingClient:
    """
    Makes the requests of one stream; use it in one event loop.

    A connection that is lost during a request fails that request.  The next one connects again, to
    the server that has the fewest streams, for as long as its time lasts, because a server that
    restarts is away for seconds.

    Args:
        choose: returns the servers in the order in which to try them.
        admit: checks a server before it is connected to; may wait, runs in another thread.
        timeout_seconds: the time of a request, connecting included.

    """

    def __init__(
        self,
        choose: Callable[[], list[Server]],
        admit: Callable[[Server], None],
        *,
        timeout_seconds: float,
    ) -> None:
        self._choose = choose
        self._admit = admit
        self._timeout_seconds = timeout_seconds
        self._server: Server | None = None  # tried last
        self._endpoint: Endpoint | None = None
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
            async with asyncio.timeout(self._timeout_seconds):
                return await self._ask(request)
        except EXPECTED_ERRORS as error:
            failure = await self._failed(error)
        except BaseException:
            await self._drop()
            raise
        raise failure

    async def close(self) -> None:
        """Close the connection properly."""
        connection = self._leave()
        if connection is not None:
            await connection.close()

    async def _failed(self, error: Exception) -> BackendError:
        """Disconnect; return what to raise for *error*."""
        server, endpoint = self._server, self._endpoint
        await self._drop()
        if server is None:
            raise AssertionError("a request fails at a server") from error
        if is_transient(error):
            server.mark_down()
        source = server.source
        if endpoint is not None:
            error = await asyncio.to_thread(source.explain_failure, error, endpoint)
        return backend_error(error, source.name, endpoint, key_variable=source.key_variable)

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
        """
        Connect to the first server that can be reached.

        Before any connection a failure of all servers is final, because the address may be wrong; a
        server that this process has started is waited for.
        """
        pause = _FIRST_PAUSE
        while True:
            failure: Exception | None = None
            can_wait = False
            servers = self._choose()
            for server in servers:
                try:
                    async with asyncio.timeout(self._timeout_seconds / len(servers)):
                        return await self._connect_to(server, request)
                except EXPECTED_ERRORS as error:
                    await self._drop()
                    failure = error
                    if isinstance(error, TimeoutError) and self._endpoint is not None:
                        # It may hang.  The stream goes on at another server meanwhile.
                        threading.Thread(
                            target=server.source.explain_failure,
                            args=(error, self._endpoint),
                            name="wlk-realtime-check",
                            daemon=True,
                        ).start()
                    if is_transient(error):
                        server.mark_down()
                        is_own = isinstance(error, ServerAwayError)
                        can_wait = can_wait or self._connections > 0 or is_own
            if failure is None or not can_wait:
                raise failure or AssertionError("unreachable: there is a server")
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE)

    async def _connect_to(
        self, server: Server, request: Request
    ) -> tuple[Connection, RemoteStream]:
        self._server = server
        self._endpoint = None
        server.clients.add(self)
        self._endpoint = server.source.endpoint()
        if server.declaration is None:
            await asyncio.to_thread(self._admit, server)
        declaration = server.declaration or Declaration()
        dialect = declaration.new_dialect(request.config, model=self._endpoint.address.model)
        self._connection = await Connection.open(self._endpoint, dialect)
        server.mark_up()
        self._connections += 1
        self._remote = RemoteStream(dialect, number=self._connections)
        return self._connection, self._remote

    async def _drop(self) -> None:
        """Abandon the connection."""
        connection = self._leave()
        if connection is not None:
            await connection.abort()

    def _leave(self) -> Connection | None:
        """Forget the connection, and return it."""
        if self._server is not None:
            self._server.clients.discard(self)
        connection, self._connection = self._connection, None
        return connection
