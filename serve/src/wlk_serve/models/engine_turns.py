"""Turns to use an engine: sessions and recordings together never take more than it declares."""

from __future__ import annotations

from collections import deque
import threading
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
        self._lock = threading.Lock()
        self._free = count  # above 0 only while no thread waits
        self._queues: tuple[deque[threading.Event], ...] = (deque(), deque())
        self.sessions = Turns(self, rank=0)  #: for threads that step sessions
        self.recordings = Turns(self, rank=1)  #: for threads of recordings

    @property
    def waiting(self) -> int:
        """How many threads wait for a turn."""
        return sum(map(len, self._queues))

    def take(self, rank: int) -> None:
        """Wait for a turn; one of a lower *rank* comes first."""
        with self._lock:
            if self._free:
                self._free -= 1
                return
            granted = threading.Event()
            self._queues[rank].append(granted)
        granted.wait()

    def give_back(self) -> None:
        """End a turn, which may begin another."""
        with self._lock:
            queue = next(filter(None, self._queues), None)
            if queue is None:
                self._free += 1
            else:
                queue.popleft().set()


class Turns:
    """The turns of one kind of thread; a context manager that any number of threads share."""

    def __init__(self, engine: EngineTurns, *, rank: int) -> None:
        self._engine = engine
        self._rank = rank

    def acquire(self) -> None:
        """Wait for a turn."""
        self._engine.take(self._rank)

    def release(self) -> None:
        """Give the turn back."""
        self._engine.give_back()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()
