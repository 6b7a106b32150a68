"""Work that keeps the event loop busy for milliseconds, such as the JSON of a large message."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

#: Bytes.  To join, to parse and to decode an append of 15 MiB takes 20 ms each.
LARGE_MESSAGE = 1 << 20
_SHORT_SECONDS = 0.001  # a piece after which nobody waits
_OTHERS_SHARE = 2  # times as long as a piece took, which waits for threads of the model
_MAX_SECONDS = 0.1  # of others: a process may be frozen in a piece


class LongTurns:
    """Lets one piece of long work at a time into the event loop, and others for longer after it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = asyncio.Lock()  # so that pieces come in the order of their requests
        self._free_at = -math.inf

    @property
    def seconds_left(self) -> float:
        """How long the turn of others lasts; at most 0 where a piece may begin."""
        return self._free_at - self._clock()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count the body as a piece, although it may not be its turn."""
        began = self._clock()
        try:
            yield
        finally:
            ended = self._clock()
            if ended - began > _SHORT_SECONDS:
                self._free_at = ended + min(_OTHERS_SHARE * (ended - began), _MAX_SECONDS)

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Wait for a turn and run the body in it; the body must not await."""
        async with self._lock:
            while (seconds := self.seconds_left) > 0:  # noqa: ASYNC110 -- a time, not an event
                await asyncio.sleep(seconds)
            with self.counted():
                yield
