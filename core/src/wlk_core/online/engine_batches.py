"""Calls of several threads that one run of an engine answers together."""

from __future__ import annotations

import threading
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from wlk_core.online.batch_queue import BatchQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

__all__ = ["EngineBatches"]

Q = TypeVar("Q")
R = TypeVar("R")


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
        self._lock = threading.Lock()
        self._arrival = threading.Condition(self._lock)
        self._queue: BatchQueue[_Call[Any, Any]] = BatchQueue()
        self._run_count = 0
        self._together = 0

    @property
    def run_count(self) -> int:
        """The number of runs of the engine so far, failed ones included."""
        return self._run_count

    @property
    def together(self) -> int:
        """The number of calls that a run waits for, however long that takes; 0 for none."""
        return self._together

    @together.setter
    def together(self, count: int) -> None:
        with self._lock:
            self._together = count
            self._arrival.notify_all()

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
            with self._lock:
                is_leader = self._queue.put(call, function=function, caller=caller)
                self._arrival.notify_all()
            if not is_leader:
                call.signal.wait()
            if not call.is_answered:
                self._lead(call)
        except BaseException:  # the thread ends here, and no other may wait for it
            with self._lock:
                call.is_withdrawn = True
                successor = self._queue.withdraw(call)
            if successor is not None:
                successor.signal.set()
            raise
        return call.answer()

    def _lead(self, leader: _Call[Any, Any]) -> None:
        """Run the engine for *leader* and the calls that wait, and hand over to the next leader."""
        batch: list[_Call[Any, Any]] = []
        seconds: float | None = None
        try:
            with self._lock:
                has_waited = self._wait()
                batch = self._queue.take(has_waited=has_waited)
            began = perf_counter()
            self._answer(batch)
            seconds = perf_counter() - began
        finally:
            with self._lock:
                self._queue.put_back(
                    (call, call.function, call.caller)
                    for call in batch
                    if not (call.is_answered or call.is_withdrawn or call is leader)
                )
                successor = self._queue.end(seconds)
            for call in (successor, *batch):
                if call is not None and (call.is_answered or call is successor):
                    call.signal.set()

    def _wait(self) -> bool:
        """Wait for further calls, with the lock held; return whether that was worth a try."""
        if self._together:
            self._arrival.wait_for(lambda: len(self._queue) >= self._together)
            return False
        seconds = self._queue.wait_seconds
        if not seconds:
            return False
        self._arrival.wait_for(
            lambda: len(self._queue) >= self._queue.expected or bool(self._together), seconds
        )
        return True

    def _answer(self, batch: list[_Call[Any, Any]]) -> None:
        """Answer the calls of *batch* by one run of the engine, or each alone where that fails."""
        with self._lock:
            self._run_count += 1
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
