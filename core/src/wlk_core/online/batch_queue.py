"""Calls that wait for an engine, and which of them it takes together; without threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

__all__ = ["MAX_BATCH", "BatchQueue"]

C = TypeVar("C")

MAX_BATCH = 64  # calls taken together: bounds the memory of a batch
# A wait for calls that are expected lasts this share of the last run of the engine at most.
WAIT_SHARE = 0.5
# After a wait that was in vain, so many batches are taken without one.  Streams whose audio comes
# at other times of a tick would wait in vain each time.
BATCHES_WITHOUT_WAIT = 8


class BatchQueue(Generic[C]):
    """
    The calls that wait for one engine, in their order, and the call that leads the next batch.

    The first call that finds the engine idle leads: it runs the engine for itself and all others
    that wait.  The oldest call that came meanwhile leads the next batch.

    Streams that were taken together come back one after the other, and the first of them would be
    taken alone.  So a leader may wait for as many callers as there were in the last two batches,
    for a part of the last run of the engine at most.  A caller that is alone never waits.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[C, Hashable, Hashable]] = []  # call, its function, its caller
        self._leader: C | None = None
        self._recent: tuple[frozenset[Hashable], frozenset[Hashable]] = (frozenset(), frozenset())
        self._seconds = 0.0
        self._batches_without_wait = 0

    def __len__(self) -> int:
        """Count the calls that wait, the leader among them."""
        return len(self._waiting)

    @property
    def expected(self) -> int:
        """The number of callers in the last two batches."""
        return len(self._recent[0] | self._recent[1])

    @property
    def wait_seconds(self) -> float:
        """How long the leader may wait until `expected` calls are there."""
        if self._batches_without_wait or len(self) >= self.expected:
            return 0.0
        return WAIT_SHARE * self._seconds

    def put(self, call: C, *, function: Hashable, caller: Hashable) -> bool:
        """Append *call*, and return whether it leads the next batch, because the engine is idle."""
        self._waiting.append((call, function, caller))
        if self._leader is None:
            self._leader = call
        return self._leader == call

    def take(self, *, has_waited: bool = False) -> list[C]:
        """
        Return the batch of the leader: the calls of the oldest one's function, in their order.

        `has_waited` reports that the leader waited for `expected` calls.
        """
        if has_waited and len(self) < self.expected:
            self._batches_without_wait = BATCHES_WITHOUT_WAIT
        elif self._batches_without_wait:
            self._batches_without_wait -= 1
        function = self._waiting[0][1]
        batch = [entry for entry in self._waiting if entry[1] == function][:MAX_BATCH]
        self._waiting = [entry for entry in self._waiting if entry not in batch]
        self._recent = (self._recent[1], frozenset(caller for _, _, caller in batch))
        return [call for call, _, _ in batch]

    def end(self, seconds: float | None = None) -> C | None:
        """
        End the batch of the leader, and return the call that leads the next one; None if none.

        *seconds* is how long the engine ran, None where it did not run to its end.
        """
        if seconds is not None:
            self._seconds = seconds
        self._leader = self._waiting[0][0] if self._waiting else None
        return self._leader

    def put_back(self, calls: Iterable[tuple[C, Hashable, Hashable]]) -> None:
        """Put calls of an interrupted batch in front: (call, function, caller) of each."""
        self._waiting[:0] = calls

    def withdraw(self, call: C) -> C | None:
        """Forget *call*; return the call that leads in its place, None where none has to."""
        self._waiting = [entry for entry in self._waiting if entry[0] != call]
        return self.end() if self._leader == call else None
