"""The connection of one stream, opened when it is needed and again when it was lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from wlk_core.plugins import BackendError, OptionError
from wlk_realtime.engine.messages import ServerRefusalError
from wlk_realtime.engine.remote_stream import RemoteStream
from wlk_realtime.realtime.connection import Connection
from wlk_realtime.realtime.declaration import Declaration
from wlk_realtime.realtime.errors import (
    EXPECTED_ERRORS,
    ServerAwayError,
    backend_error,
    is_transient,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from wlk_realtime.engine.exchange import Answer, Dialect, Request, SessionConfig
    from wlk_realtime.realtime.server import Endpoint, Server

__all__ = ["Link"]

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0  # seconds between attempts to connect again


class Link:
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
        self._is_counted = False  # by that server
        self._endpoint: Endpoint | None = None
        self._connection: Connection | None = None
        self._remote: RemoteStream | None = None
        self._connections = 0  # opened so far

    @property
    def is_open(self) -> bool:
        """Whether there is a connection to close."""
        return self._connection is not None

    @property
    def server(self) -> Server | None:
        """The server of the connection."""
        return self._server

    async def ask(self, request: Request) -> Answer:
        """
        Return the answer to *request*, which may be made again after a failure.

        Raises:
            BackendError: no connection, a lost one, or an answer that no server gives.

        """
        return await self._bounded(self._ask(request))

    async def check(self, config: SessionConfig) -> None:
        """
        Open a session with *config*, and a stream of the model in it.

        Raises:
            OptionError: the server refuses the configuration.
            BackendError: see `ask`.

        """
        no_audio = np.empty(0, np.float32)

        async def check() -> None:
            connection, dialect = await self._connect(config)
            await connection.send(dialect.send(no_audio, is_last=False))
            await connection.wait_until(lambda: dialect.is_answered)

        try:
            await self._bounded(check())
        except BackendError as error:
            cause = error.__cause__
            if not isinstance(cause, ServerRefusalError) or cause.is_retryable:
                raise
            refusal = cause
        else:
            return
        name = "" if self._server is None else self._server.source.name
        raise OptionError(f"realtime: {name} refused a stream: {refusal}")

    async def drop(self) -> None:
        """Abandon the connection."""
        connection = self._leave()
        if connection is not None:
            await connection.abort()

    async def close(self) -> None:
        """Close the connection properly."""
        connection = self._leave()
        if connection is not None:
            await connection.close()

    async def _bounded(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of *work* within the time of a request; any failure disconnects."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await work
        except EXPECTED_ERRORS as error:
            failure = await self._failed(error)
        except BaseException:
            await self.drop()
            raise
        raise failure

    async def _failed(self, error: Exception) -> BackendError:
        """Disconnect; return what to raise for *error*."""
        server, endpoint = self._server, self._endpoint
        await self.drop()
        if server is None:
            return backend_error(error, "", key_variable="")
        if is_transient(error):
            server.lose()
        source = server.source
        if endpoint is not None:
            error = await asyncio.to_thread(source.diagnosed, error, endpoint)
        return backend_error(error, source.name, key_variable=source.key_variable)

    async def _ask(self, request: Request) -> Answer:
        connection, remote = self._connection, self._remote
        is_usable = connection is not None and connection.error is None
        if connection is None or remote is None or not is_usable or not remote.fits(request):
            await self.drop()
            connection, dialect = await self._connect(request.config)
            remote = self._remote = RemoteStream(dialect, number=self._connections)
        await connection.send(remote.send(request))
        await connection.wait_until(lambda: remote.is_answered)
        return remote.answer(request)

    async def _connect(self, config: SessionConfig) -> tuple[Connection, Dialect]:
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
                        return await self._connect_to(server, config)
                except EXPECTED_ERRORS as error:
                    await self.drop()
                    failure = error
                    if isinstance(error, TimeoutError) and self._endpoint is not None:
                        server.source.suspect(self._endpoint)
                    if is_transient(error):
                        server.lose()
                        is_own = isinstance(error, ServerAwayError)
                        can_wait = can_wait or self._connections > 0 or is_own
            if failure is None or not can_wait:
                raise failure or AssertionError("unreachable: there is a server")
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _connect_to(
        self, server: Server, config: SessionConfig
    ) -> tuple[Connection, Dialect]:
        self._server = server
        self._endpoint = None
        server.streams += 1
        self._is_counted = True
        self._endpoint = server.source.endpoint()
        if server.declaration is None:
            await asyncio.to_thread(self._admit, server)
        declaration = server.declaration or Declaration()
        dialect = declaration.new_dialect(config, model=self._endpoint.address.model)
        self._connection = await Connection.open(self._endpoint, dialect)
        server.find()
        self._connections += 1
        return self._connection, dialect

    def _leave(self) -> Connection | None:
        """Forget the connection, and return it."""
        if self._server is not None and self._is_counted:
            self._server.streams -= 1
        self._is_counted = False
        connection, self._connection = self._connection, None
        return connection
