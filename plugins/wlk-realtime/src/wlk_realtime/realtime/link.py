"""The connection of one stream, opened when it is needed and again when it was lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from wlk_core.plugins import BackendError, OptionError
from wlk_realtime.engine.messages import ServerRefusalError
from wlk_realtime.engine.remote_stream import RemoteStream
from wlk_realtime.realtime.connection import Connection
from wlk_realtime.realtime.errors import EXPECTED_ERRORS, backend_error, is_transient

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from wlk_realtime.engine.exchange import Answer, Dialect, Request, SessionConfig
    from wlk_realtime.realtime.address import Address

__all__ = ["Link"]

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0  # seconds between attempts to connect again


class Link:
    """
    Makes the requests of one stream; use it in one event loop.

    A connection that is lost during a request fails that request.  The next one connects again, for
    as long as its time lasts, because a server that restarts is away for seconds.

    Args:
        address: the server.
        new_dialect: returns a session in the server's messages.
        key: sent to it, None for none.
        key_variable: where the key comes from, for messages.
        timeout_seconds: the time of a request, connecting included.

    """

    def __init__(
        self,
        address: Address,
        new_dialect: Callable[[SessionConfig], Dialect],
        *,
        key: str | None,
        key_variable: str,
        timeout_seconds: float,
    ) -> None:
        self._address = address
        self._new_dialect = new_dialect
        self._key = key
        self._key_variable = key_variable
        self._timeout_seconds = timeout_seconds
        self._connection: Connection | None = None
        self._remote: RemoteStream | None = None
        self._connections = 0  # opened so far

    @property
    def is_open(self) -> bool:
        """Whether there is a connection to close."""
        return self._connection is not None

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
        dialect = self._new_dialect(config)
        no_audio = np.empty(0, np.float32)

        async def check() -> None:
            self._connection = await Connection.open(self._address, dialect, key=self._key)
            await self._connection.send(dialect.send(no_audio, is_last=False))
            await self._connection.wait_until(lambda: dialect.is_answered)

        try:
            await self._bounded(check())
        except BackendError as error:
            cause = error.__cause__
            if not isinstance(cause, ServerRefusalError) or cause.is_retryable:
                raise
            refusal = cause
        else:
            return
        raise OptionError(f"realtime: {self._address.url} refused a stream: {refusal}")

    async def _bounded(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of *work* within the time of a request; any failure disconnects."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await work
        except EXPECTED_ERRORS as error:
            await self.drop()
            failure = error
        except BaseException:
            await self.drop()
            raise
        raise backend_error(failure, self._address, key_variable=self._key_variable)

    async def drop(self) -> None:
        """Abandon the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.abort()

    async def close(self) -> None:
        """Close the connection properly."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _ask(self, request: Request) -> Answer:
        connection, remote = self._connection, self._remote
        is_usable = connection is not None and connection.error is None
        if connection is None or remote is None or not is_usable or not remote.fits(request):
            await self.drop()
            connection, remote = await self._open(request)
        await connection.send(remote.send(request))
        await connection.wait_until(lambda: remote.is_answered)
        return remote.answer(request)

    async def _open(self, request: Request) -> tuple[Connection, RemoteStream]:
        pause = _FIRST_PAUSE
        while True:
            dialect = self._new_dialect(request.config)
            try:
                connection = await Connection.open(self._address, dialect, key=self._key)
                break
            except EXPECTED_ERRORS as error:
                if not self._connections or not is_transient(error):
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        self._connections += 1
        self._connection = connection
        self._remote = RemoteStream(dialect, number=self._connections)
        return self._connection, self._remote
