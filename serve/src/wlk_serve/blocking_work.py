"""Ration work that blocks the event loop for milliseconds, such as parsing a large message."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

#: Bytes.  Joining an append of 15 MiB takes 20 ms, and so does decoding it.  Reading its samples
#: takes 10 ms; those of G.711 are read in parts, see `SessionAudio.append`.
LARGE_MESSAGE = 1 << 20
_SHORT_SECONDS = 0.001  # no pause follows a shorter piece
_PAUSE_FACTOR = 2  # others get twice the time a piece took: it competed with the model for the GIL
_MAX_PAUSE = 0.1  # seconds; a piece in which the process was frozen seems to take hours


class BlockingWork:
    """Runs one piece of blocking work at a time in the event loop, and then pauses for others."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = asyncio.Lock()  # fair: pieces run in the order of their requests
        self._free_at = -math.inf

    @property
    def pause_left(self) -> float:
        """Seconds until the next piece may begin; 0 or negative if it may begin now."""
        return self._free_at - self._clock()

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Run the body as a piece of work without waiting for the pause to end."""
        began = self._clock()
        try:
            yield
        finally:
            ended = self._clock()
            if ended - began > _SHORT_SECONDS:
                self._free_at = ended + min(_PAUSE_FACTOR * (ended - began), _MAX_PAUSE)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn, then run the body, which must not await."""
        async with self._lock:
            while (seconds := self.pause_left) > 0:  # noqa: ASYNC110 -- a time, not an event
                await asyncio.sleep(seconds)
            with self.measured():
                yield
