"""A session that reports which of its chunks are done."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from wlk_live.session import Failure, Session

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.errors import WLKError
    from wlk_core.processor import OnlineProcessor
    from wlk_live.session import Event

_UNBOUNDED = 1e9  # seconds: a session that falls behind is measured, its audio never refused


class TimedSession(Session):
    """
    A session whose audio comes in chunks of one length.

    `on_done` is called in the thread of a step, with the arrival times of the chunks that the step
    completed.  Once the engine has failed permanently, every use raises that error: otherwise a
    measurement would wait forever for chunks that nobody decodes.
    """

    def __init__(
        self,
        processor: OnlineProcessor,
        chunk_seconds: float,
        on_done: Callable[[list[float]], object],
    ) -> None:
        super().__init__(processor, max_backlog_seconds=_UNBOUNDED)
        self.processor = processor
        self._chunk_seconds = chunk_seconds
        self._on_done = on_done
        self._arrivals: list[float] = []  # arrival times of the chunks that are not done
        self._lock = threading.Lock()
        self._error: WLKError | None = None  # the error that ended the session

    @property
    def waiting(self) -> tuple[float, ...]:
        """The arrival times of the chunks that are not done."""
        self.check()
        return tuple(self._arrivals)

    @property
    def retry_delay(self) -> float:
        """A failed call is repeated at once: a pause would not count as work of the machine."""
        return 0.0

    def check(self) -> None:
        """Raise the error that ended the session, if there was one."""
        if self._error is not None:
            raise self._error

    def arrive(self, chunk: NDArray[np.float32], arrival: float) -> None:
        """Receive a chunk that arrived at *arrival*, on the clock of the caller."""
        self.check()
        with self._lock:
            self._arrivals.append(arrival)
            self.receive(chunk)

    def step(self) -> list[Event]:
        """Step, and report the chunks that are done."""
        events = super().step()
        for event in events:
            if isinstance(event, Failure) and event.is_final:
                self._error = event.error
        with self._lock:
            # `has_work` is true for the next chunk too, so it does not show whether one is done.
            unfinished = round(self.backlog_seconds / self._chunk_seconds)
            if self.processor.has_backlog:
                unfinished += 1
            done = max(0, len(self._arrivals) - unfinished)
            arrivals = self._arrivals[:done]
            del self._arrivals[:done]
        if arrivals:
            self._on_done(arrivals)
        return events
