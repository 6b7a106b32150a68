"""Calls of several threads that one run of an engine answers together."""

from __future__ import annotations

import threading
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

__all__ = ["MAX_BATCH", "EngineBatches"]

Q = TypeVar("Q")
R = TypeVar("R")

MAX_BATCH = 64  # calls taken together: bounds the memory of a batch
# A wait for calls that are expected lasts this share of the last run of the engine at most.
WAIT_SHARE = 0.5
# After a wait that was in vain, so many batches are taken without one.  Streams whose audio comes
# at other times of a tick would wait in vain each time.
BATCHES_WITHOUT_WAIT = 8


@attrs.define(eq=False)
class _Call:
    """One call, its argument and its answer."""

    function: Callable[[Sequence[Any]], Sequence[Any]]
    argument: Any
    caller: Hashable
    is_answered: bool = False
    is_withdrawn: bool = False  # its thread has ended
    result: Any = None
    error: Exception | None = None


class EngineBatches:
    """
    Run an engine for all calls that wait for it, in the thread of one of them.

    The oldest call that finds the engine idle leads: it runs the engine for itself and all others
    that wait.  Runs never overlap.

    Streams that were taken together come back one after the other, and the first of them would be
    taken alone.  So a leader may wait for as many callers as there were in the last two batches,
    for a part of the last run of the engine at most.  A caller that is alone never waits.

    Where the run of several calls raises, each of them is run again alone, so that an error reaches
    only the call that causes it.  An exception that ends a thread, such as KeyboardInterrupt, ends
    its own call only: the others of the batch are run again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.arrival = threading.Condition(self._lock)  #: of a call; guards what waits
        self.waiting: list[_Call] = []  #: calls that no run has taken, in their order
        self.run_count = 0  #: runs of the engine so far, failed ones included
        self._run_ended = threading.Condition(self._lock)  # or a call was withdrawn
        self._leader: _Call | None = None  # whose thread runs the engine
        self._recent: tuple[frozenset[Hashable], frozenset[Hashable]] = (frozenset(), frozenset())
        self._seconds = 0.0  # of the last run
        self._batches_without_wait = 0

    def call(
        self, function: Callable[[Sequence[Q]], Sequence[R]], argument: Q, *, caller: Hashable
    ) -> R:
        """
        Return the answer of *function* to *argument*, taken together with others that wait.

        *function* takes arguments of several calls and returns their answers in the same order.
        *caller* identifies the stream.  What *function* raises for the argument alone is raised.
        """
        call = _Call(function, argument, caller)

        def is_next() -> bool:
            return self._leader is None and self.waiting[0] is call

        try:
            with self._lock:
                self.waiting.append(call)
                self.arrival.notify_all()
                self._run_ended.wait_for(lambda: call.is_answered or is_next())
                if not call.is_answered:
                    self._leader = call
            if self._leader is call:
                self._lead(call)
        except BaseException:  # the thread ends here, and no other may wait for it
            with self._lock:
                call.is_withdrawn = True
                self.waiting = [each for each in self.waiting if each is not call]
                if self._leader is call:
                    self._leader = None
                self._run_ended.notify_all()
            raise
        error, call.error = call.error, None
        try:
            if error is not None:
                raise error
        finally:
            del error  # its traceback has this frame, which would keep the arguments of the batch
        answer: R = call.result
        return answer

    def gather(self) -> None:
        """
        Wait for the callers of the last two batches, with `arrival` held.

        A test may wait for others in its place.
        """
        expected = len(self._recent[0] | self._recent[1])
        if self._batches_without_wait:
            self._batches_without_wait -= 1
        elif not self.arrival.wait_for(
            lambda: len(self.waiting) >= expected, WAIT_SHARE * self._seconds
        ):
            self._batches_without_wait = BATCHES_WITHOUT_WAIT

    def _lead(self, leader: _Call) -> None:
        """Run the engine for *leader* and the calls that wait, and let the next call lead."""
        batch: list[_Call] = []
        try:
            with self.arrival:
                self.gather()
                same = [call for call in self.waiting if call.function == leader.function]
                batch = same[:MAX_BATCH]
                self.waiting = [call for call in self.waiting if call not in batch]
                self._recent = (self._recent[1], frozenset(call.caller for call in batch))
            began = perf_counter()
            self._answer(batch)
            self._seconds = perf_counter() - began
        finally:
            with self.arrival:
                self.waiting[:0] = [
                    call for call in batch if not (call.is_answered or call.is_withdrawn)
                ]
                self._leader = None
                self._run_ended.notify_all()

    def _answer(self, batch: list[_Call]) -> None:
        """Answer the calls of *batch* by one run of the engine, or each alone where that fails."""
        with self.arrival:
            self.run_count += 1
        try:
            results = _results(batch)
        except Exception as error:  # noqa: BLE001 -- raised again by the call that causes it
            if len(batch) == 1:
                batch[0].error, batch[0].is_answered = error, True
                return
            for call in batch:
                self._answer([call])
            return
        for call, result in zip(batch, results, strict=True):
            call.result, call.is_answered = result, True


def _results(batch: list[_Call]) -> Sequence[Any]:
    results = batch[0].function([call.argument for call in batch])
    if len(results) != len(batch):
        raise RuntimeError(
            f"expected {len(batch)} answers of the engine, one for each call that it took "
            f"together, got {len(results)}"
        )
    return results
