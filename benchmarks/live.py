"""Sessions in real time, stepped by a thread each or by the scheduler of the server."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from wlk_core.processor import SAMPLE_RATE
from wlk_serve.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core import Event

__all__ = ["by_scheduler", "by_threads", "directly", "drop", "recorder", "schedule"]

DRAIN_SECONDS = 30.0  # how long sessions that fall back are waited for


def schedule(
    sessions: int, seconds: float, chunk_seconds: float, *, spread: float | None = None
) -> list[tuple[float, int, int]]:
    """
    Return (arrival, session, first sample) of every chunk, in order.

    The sessions begin evenly over *spread* seconds, by default over a chunk.
    """
    spread = chunk_seconds if spread is None else spread
    size = round(chunk_seconds * SAMPLE_RATE)
    return sorted(
        ((number + 1) * chunk_seconds + spread * session / sessions, session, number * size)
        for number in range(round(seconds / chunk_seconds))
        for session in range(sessions)
    )


def recorder(delays: list[float]) -> Callable[[list[float]], None]:
    """Return what appends to *delays* how long ago chunks that are done arrived."""

    def on_done(arrivals: list[float]) -> None:
        now = time.monotonic()
        delays.extend(now - arrival for arrival in arrivals)

    return on_done


def by_threads(
    sessions: Sequence[Any],
    audio: Sequence[NDArray[np.float32]],
    chunks: Sequence[tuple[float, int, int]],
    chunk_samples: int,
) -> None:
    """Step each session in a thread of its own; it has `arrive`, `has_work` and `step`."""
    began = time.monotonic()

    def run(index: int) -> None:
        session = sessions[index]
        for arrival, owner, first in chunks:
            if owner == index:
                time.sleep(max(0.0, began + arrival - time.monotonic()))
                session.arrive(audio[index][first : first + chunk_samples], began + arrival)
                while session.has_work:
                    session.step()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(sessions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def by_scheduler(
    backend: Any,
    sessions: Sequence[Any],
    audio: Sequence[NDArray[np.float32]],
    chunks: Sequence[tuple[float, int, int]],
    chunk_samples: int,
) -> None:
    """Step the sessions on the scheduler."""
    tick_seconds = chunk_samples / SAMPLE_RATE
    with Scheduler.for_backend(backend, tick_seconds=tick_seconds) as scheduler:
        attachments = [scheduler.attach(session, drop, call=directly) for session in sessions]
        began = time.monotonic()
        for arrival, index, first in chunks:
            time.sleep(max(0.0, began + arrival - time.monotonic()))
            sessions[index].arrive(audio[index][first : first + chunk_samples], began + arrival)
            attachments[index].notify()
        last = time.monotonic() + DRAIN_SECONDS
        while any(session.has_work for session in sessions) and time.monotonic() < last:
            time.sleep(0.05)


def drop(_events: list[Event]) -> None:
    """Stand for a consumer that costs nothing."""


def directly(function: Callable[[], object]) -> None:
    """Call in the same thread."""
    function()
