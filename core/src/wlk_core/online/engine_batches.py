"""Calls of several threads that one run of an engine answers together."""

from __future__ import annotations

import threading
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

__all__ = ["MAX_BATCH", "BatchQueue", "EngineBatches"]

C = TypeVar("C")
Q = TypeVar("Q")
R = TypeVar("R")

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


class _Call(Generic[Q, R]):
    """One call: its argument, and its answer once there is one."""

    def __init__(
        self, function: Callable[[Sequence[Q]], Sequence[R]], argument: Q, caller: Hashable
    ) -> None:
        self.function = function
        self.argument = argument
        self.caller = caller
        self.signal = threading.Event()  # it is answered, or it leads the next batch
        self.is_answered = False
        self.is_withdrawn = False  # its thread has ended
        self._result: R | None = None
        self._error: Exception | None = None

    def succeed(self, result: R) -> None:
        self._result, self.is_answered = result, True

    def fail(self, error: Exception) -> None:
        self._error, self.is_answered = error, True

    def answer(self) -> R:
        """Return the result, or raise the error; once."""
        error, self._error = self._error, None
        if error is None:
            return cast("R", self._result)
        try:
            raise error
        finally:
            del error  # its traceback has this frame, which would keep the arguments of the batch


class EngineBatches:
    """
    Run an engine for all calls that wait for it, in the thread of one of them.

    A call that finds the engine idle runs it at once; calls that come meanwhile are taken together
    by the next run (see `BatchQueue`).  Runs never overlap.

    Where the run of several calls raises, each of them is run again alone, so that an error reaches
    only the call that causes it.  An exception that ends a thread, such as KeyboardInterrupt, ends
    its own call only: the others of the batch are run again.
    """

    def __init__(self) -> None:
        self.arrival = threading.Condition()  #: of a call; guards the queue
        self.queue: BatchQueue[_Call[Any, Any]] = BatchQueue()
        self.run_count = 0  #: runs of the engine so far, failed ones included

    def call(
        self, function: Callable[[Sequence[Q]], Sequence[R]], argument: Q, *, caller: Hashable
    ) -> R:
        """
        Return the answer of *function* to *argument*, taken together with others that wait.

        *function* takes arguments of several calls and returns their answers in the same order.
        *caller* identifies the stream.  What *function* raises for the argument alone is raised.
        """
        call = _Call(function, argument, caller)
        try:
            with self.arrival:
                is_leader = self.queue.put(call, function=function, caller=caller)
                self.arrival.notify_all()
            if not is_leader:
                call.signal.wait()
            if not call.is_answered:
                self._lead(call)
        except BaseException:  # the thread ends here, and no other may wait for it
            with self.arrival:
                call.is_withdrawn = True
                successor = self.queue.withdraw(call)
            if successor is not None:
                successor.signal.set()
            raise
        return call.answer()

    def _lead(self, leader: _Call[Any, Any]) -> None:
        """Run the engine for *leader* and the calls that wait, and hand over to the next leader."""
        batch: list[_Call[Any, Any]] = []
        seconds: float | None = None
        try:
            with self.arrival:
                has_waited = self.gather()
                batch = self.queue.take(has_waited=has_waited)
            began = perf_counter()
            self._answer(batch)
            seconds = perf_counter() - began
        finally:
            with self.arrival:
                self.queue.put_back(
                    (call, call.function, call.caller)
                    for call in batch
                    if not (call.is_answered or call.is_withdrawn or call is leader)
                )
                successor = self.queue.end(seconds)
            for call in (successor, *batch):
                if call is not None and (call.is_answered or call is successor):
                    call.signal.set()

    def gather(self) -> bool:
        """
        Wait for further calls, with `arrival` held, before a batch is taken.

        Returns whether it waited for `expected` calls.  A test may wait for others in its place.
        """
        seconds = self.queue.wait_seconds
        if not seconds:
            return False
        self.arrival.wait_for(lambda: len(self.queue) >= self.queue.expected, seconds)
        return True

    def _answer(self, batch: list[_Call[Any, Any]]) -> None:
        """Answer the calls of *batch* by one run of the engine, or each alone where that fails."""
        with self.arrival:
            self.run_count += 1
        try:
            results = _results(batch)
        except Exception as error:  # noqa: BLE001 -- raised again by the call that causes it
            if len(batch) == 1:
                batch[0].fail(error)
                return
            for call in batch:
                self._answer([call])
            return
        for call, result in zip(batch, results, strict=True):
            call.succeed(result)


def _results(batch: list[_Call[Any, Any]]) -> Sequence[Any]:
    results = batch[0].function([call.argument for call in batch])
    if len(results) != len(batch):
        raise RuntimeError(
            f"expected {len(batch)} answers of the engine, one for each call that it took "
            f"together, got {len(results)}"
        )
    return results
