"""An asynchronous generator of events whose cancellation loses none that was computed."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from wlk_core.session.events import Event

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["RecoverableEvents"]


class RecoverableEvents(AsyncGenerator[Event, None]):
    """
    The events of a generator, and after it was cancelled those that it had computed by then.

    *generate* is called with a deque for these late events, and returns the generator.  The first
    ``anext`` after a cancelled one returns the first of them, and after the last the events end.
    """

    def __init__(self, generate: Callable[[deque[Event]], AsyncGenerator[Event]]) -> None:
        self._late: deque[Event] = deque()
        self._events = generate(self._late)

    async def asend(self, value: None) -> Event:
        """Return the next event."""
        try:
            return await self._events.asend(value)
        except StopAsyncIteration:
            if not self._late:
                raise
        return self._late.popleft()

    async def athrow(self, *exception: Any) -> Event:
        """Raise an exception where the generator waits."""
        return await self._events.athrow(*exception)

    async def aclose(self) -> None:
        """Close the generator and drop the late events."""
        self._late.clear()
        await self._events.aclose()
