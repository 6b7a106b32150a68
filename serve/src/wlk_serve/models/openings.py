"""Opens what blocks in threads, for tasks of an event loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Openings"]

T = TypeVar("T")

# Threads, which exist while they are needed: one waits while a model answers from another machine.
_MOST_OPENINGS = 100  # as many as sessions by default


class Openings:
    """
    Calls functions that may block, such as one that opens a stream at another server.

    A call that has begun cannot be interrupted: what it returns after its task was cancelled is
    given to the function that closes it.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_MOST_OPENINGS, "wlk-open")

    async def open(self, make: Callable[[], T], close: Callable[[T], object]) -> T:
        """
        Return what *make* returns, in a thread; raises what it raises.

        Args:
            make: opens a resource.
            close: closes what *make* returned after the caller was cancelled; must not wait.

        """
        opening = self._threads.submit(make)
        try:
            return await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(partial(_close_result, close))
            raise

    def close(self) -> None:
        """Wait for the calls that run; no other one begins."""
        self._threads.shutdown(cancel_futures=True)


def _close_result(close: Callable[[T], object], opening: Future[T]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        close(opening.result())
