"""Turns to use an engine: sessions and recordings together never take more than it declares."""

from __future__ import annotations

from collections import deque
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["EngineTurns", "Turns"]


class EngineTurns:
    """
    A number of turns, for threads that step sessions first and then for those of recordings.

    A turn that is given back goes on to the thread of a session that has waited longest, else to
    that of a recording.  No turn is taken from a thread that has it.

    Args:
        count: how many threads may use the engine at a time.

    """

    def __init__(self, count: int) -> None:
        self.lock = threading.Lock()
        self.free = count  #: above 0 only while no thread waits
        self.sessions = Turns(self)  #: for threads that step sessions
        self.recordings = Turns(self)  #: for threads of recordings

    @property
    def waiting(self) -> int:
        """How many threads wait for a turn."""
        return len(self.sessions.queue) + len(self.recordings.queue)


class Turns:
    """The turns of one kind of thread; a context manager that any number of threads share."""

    def __init__(self, engine: EngineTurns) -> None:
        self._engine = engine
        self._began: dict[int, float] = {}  # when each thread got its turn
        self.queue: deque[threading.Event] = deque()

    @property
    def longest_seconds(self) -> float:
        """How long the oldest turn has lasted so far; 0 where no thread has one."""
        began = list(self._began.values())
        return time.monotonic() - min(began) if began else 0.0

    def acquire(self) -> None:
        """Wait for a turn."""
        granted = None
        with self._engine.lock:
            if self._engine.free:
                self._engine.free -= 1
            else:
                granted = threading.Event()
                self.queue.append(granted)
        if granted is not None:
            granted.wait()
        self._began[threading.get_ident()] = time.monotonic()

    def release(self) -> None:
        """Give the turn back, which may begin another."""
        del self._began[threading.get_ident()]
        with self._engine.lock:
            queue = self._engine.sessions.queue or self._engine.recordings.queue
            if queue:
                queue.popleft().set()
            else:
                self._engine.free += 1

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()
