"""Count the running sessions, limit their number and drain them before a shutdown."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
import logging
from typing import TYPE_CHECKING, Protocol

from wlk_serve.errors import RequestError, shutdown_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wlk_serve.admission import Limits

_LOGGER = logging.getLogger(__name__)

_FLUSH_SECONDS = 30.0  # for all sessions to deliver their last words


class Running(Protocol):
    """A session over a socket, or a request with a recording."""

    def end(self) -> None:
        """Take no more audio, and close after the last words."""

    def close(self) -> None:
        """Drop everything."""


class RunningSessions:
    """Counts requests and sockets, refuses those above a limit, and drains them."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._running: dict[Running, str] = {}  # with the id of each one's key
        self._changed = asyncio.Event()
        self.is_draining = False  #: whether new sessions are refused

    def __len__(self) -> int:
        return len(self._running)

    def check(self, key_id: str = "") -> None:
        """Raise RequestError if the server is full or shutting down; clients may try again."""
        if self.is_draining:
            raise shutdown_error()
        if len(self._running) >= self._limits.max_sessions:
            raise RequestError(
                f"the limit of {self._limits.max_sessions} sessions is reached; try again later",
                status=503,
                code="server_overloaded",
                retry_after=5,
            )
        per_key = self._limits.max_sessions_per_key
        if list(self._running.values()).count(key_id) >= per_key:
            raise RequestError(
                f"the limit of {per_key:g} sessions per key is reached; end one of them first",
                status=429,
                code="rate_limit_exceeded",
                retry_after=5,
            )

    @contextmanager
    def entered(self, session: Running, key_id: str = "") -> Iterator[None]:
        """Count *session*, which `check` has admitted, while it runs."""
        self._running[session] = key_id
        try:
            yield
        finally:
            del self._running[session]
            self._changed.set()

    async def drain(self, seconds: float) -> None:
        """Refuse new sessions, give running ones *seconds* to end, then end them and wait."""
        self.is_draining = True
        _LOGGER.info(
            "draining: %d sessions and requests have %g s to end", len(self._running), seconds
        )
        if await self._empty_within(seconds):
            return
        _LOGGER.info("draining: ending the remaining %d after their last words", len(self._running))
        for session in list(self._running):
            _try(session.end)
        if not await self._empty_within(_FLUSH_SECONDS):
            _LOGGER.error(
                "%d sessions and requests did not end within %g s and are dropped",
                len(self._running),
                _FLUSH_SECONDS,
            )
            for session in list(self._running):
                _try(session.close)

    async def _empty_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                while self._running:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True


def _try(call: Callable[[], object]) -> None:
    """Call *call*, and log what it raises: the other sessions still have to be ended."""
    try:
        call()
    except Exception:
        _LOGGER.exception("a session was not ended properly")
