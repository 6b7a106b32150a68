"""Count and batch the engine calls of a backend's streams, and let tests inject faults."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial, wraps
import os
import threading
from time import perf_counter
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import attrs

from wlk_core.errors import BackendError, WLKError
from wlk_core.untrusted import reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MAX_BATCH = 64  # calls; bounds the memory of a batch
# The longest wait for expected calls, as a share of the duration of the engine's last run.
WAIT_SHARE = 0.5
# Batches that run without waiting after a wait was in vain.  Streams whose audio comes at different
# times within a tick would otherwise wait in vain each time.
BATCHES_WITHOUT_WAIT = 8

P = ParamSpec("P")
Q = TypeVar("Q")
R = TypeVar("R")


@contextmanager
def engine_errors(problem: str) -> Iterator[None]:
    """Raise an engine's errors as BackendError; errors of this project pass through unchanged."""
    try:
        yield
    except WLKError:
        raise
    except Exception as error:
        raise BackendError(f"{problem}: {reason(error)}") from error


@attrs.frozen(kw_only=True)
class EngineRun:
    """One run of an engine, as passed to `EngineCalls.intercept`."""

    numbers: tuple[int, ...]  #: the numbers of the calls it answers, from 1 for each backend
    answer: Callable[[], Sequence[Any]]  #: runs the engine; returns an answer per call, in order
    #: Takes an answer and a share from 0 to 1, and returns the answer with that share of its text;
    #: None if the backend has no such function.
    cut: Callable[[Any, float], Any] | None


class EngineCalls:
    """
    The engine calls of one loaded model, shared by all its streams.

    A backend wraps every function that runs its model with `wrap`.  Nothing else is needed to test
    it against the contract's rules on failure, threads and limits::

        def open_stream(engine, config, calls):
            transcribe = calls.wrap(partial(engine.transcribe, task=config.task))
            return partial(LocalAgreementRecognizer, transcribe, language=config.language)

    An engine that answers several streams in one run uses `wrap_batch` instead.

    `intercept`, unless None, is called in place of each run of the engine, in the same thread and
    with no lock held.  It may wait, raise before or after ``run.answer()``, and return other
    answers; what it raises counts as a failure of the engine.  Only tests set it, as
    `wlk_conformance.EngineFaults` does.  It and the counters may be used from any thread.

    With *is_batching*, `batches` batches the calls of `wrap_batch`; otherwise it is None, and each
    call runs alone.
    """

    def __init__(self, *, is_batching: bool = False) -> None:
        self.batches = EngineBatches() if is_batching else None
        self.intercept: Callable[[EngineRun], Sequence[Any]] | None = None
        self.is_batching = is_batching
        self.count = 0  #: the calls so far, of all streams and of `warmup`, failed ones included
        self._counting = threading.Lock()
        self._process = os.getpid()

    @property
    def batch_count(self) -> int:
        """The runs of a batched engine so far, each for one or more calls; 0 without batching."""
        return 0 if self.batches is None else self.batches.run_count

    def wrap(
        self, function: Callable[P, R], *, cut: Callable[[R, float], R] | None = None
    ) -> Callable[P, R]:
        """
        Return *function* as an engine call: counted, and intercepted if a test asks for it.

        Wrap exactly what runs the model once and can fail; a wrapped function must not call another
        one.  The result takes and returns what *function* does, may be called from several threads
        at once if *function* may, and stores no stream state.

        *cut* takes an answer and a share from 0 to 1, and returns the answer with that share of its
        text, as if the engine had stopped early; a Hypothesis needs none.
        """

        @wraps(function, updated=())  # without the attributes of a callable object
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            numbers = (self._next_number(),)
            return self._run(numbers, lambda: (function(*args, **kwargs),), cut)[0]

        return call

    def wrap_batch(
        self,
        function: Callable[[Sequence[Q]], Sequence[R]],
        *,
        cut: Callable[[R, float], R] | None = None,
    ) -> Callable[[Q], R]:
        """
        Return an engine call of one stream that is batched with those of other streams.

        *function* takes the arguments of several calls and returns their answers in the same order.
        It gets all calls that came while the engine was busy (see `EngineBatches`); a call that is
        alone never waits.  It runs in the thread of any waiting call, one run at a time.  It must
        not change the arguments, because after a failure each call is repeated alone.

        Call `wrap_batch` once for each stream; for *cut* see `wrap`.
        """

        def run(numbered: Sequence[tuple[int, Q]]) -> Sequence[R]:
            answer = partial(function, [argument for _, argument in numbered])
            return self._run(tuple(number for number, _ in numbered), answer, cut)

        @wraps(function, updated=())
        def call(argument: Q) -> R:
            numbered = (self._next_number(), argument)
            if self.batches is None:
                return run([numbered])[0]
            return self.batches.call(run, numbered, kind=function)

        return call

    def _run(
        self,
        numbers: tuple[int, ...],
        answer: Callable[[], Sequence[R]],
        cut: Callable[[R, float], R] | None,
    ) -> Sequence[R]:
        if self.intercept is None:
            return answer()
        return self.intercept(EngineRun(numbers=numbers, answer=answer, cut=cut))

    def _next_number(self) -> int:
        # Engines have threads, which a fork does not copy: a call would wait for them forever.
        if os.getpid() != self._process:
            raise BackendError(
                f"the model was loaded in process {self._process} and does not run in one forked "
                "from it; load it after the fork, or start processes with the method spawn"
            )
        with self._counting:
            self.count += 1
            return self.count


@attrs.define(eq=False)
class _Call:
    run: Callable[[Sequence[Any]], Sequence[Any]]
    argument: Any
    kind: object
    is_answered: bool = False
    result: Any = None
    error: Exception | None = None


class EngineBatches:
    """
    Run an engine for all calls that wait for it, in the thread of one of them.

    Runs never overlap.  A call that finds the engine idle runs it for the call that has waited
    longest and all others of that kind, and again until it has its own answer.

    If a run for several calls raises, each of them is run again alone, so that an error reaches
    only the call that causes it.  An exception that ends a thread, such as KeyboardInterrupt, ends
    only that thread's call: the others of the batch are run again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.arrival = threading.Condition(self._lock)  #: signals a new call; guards `waiting`
        self.waiting: list[_Call] = []  #: calls without an answer, the oldest first
        self.run_count = 0  #: runs of the engine so far, failed ones included
        # Two conditions, so that an arrival does not wake every thread that waits for an answer.
        self._run_ended = threading.Condition(self._lock)
        self._is_running = False
        # The callers of the last two batches.
        self._recent: tuple[frozenset[object], frozenset[object]] = (frozenset(), frozenset())
        self._run_seconds = 0.0  # the duration of the last run
        self._batches_without_wait = 0

    def call(self, run: Callable[[Sequence[Q]], Sequence[R]], argument: Q, *, kind: object) -> R:
        """
        Return the answer to *argument*, batched with other calls of its *kind*.

        *run* takes several arguments and returns their answers in order; each stream has its own.
        """
        # In the caller's thread, not in one for the engine: a single call costs only a lock, and an
        # interrupt reaches it directly.
        call = _Call(run, argument, kind)
        with self._lock:
            self.waiting.append(call)
            self.arrival.notify_all()
            try:
                while not call.is_answered:
                    if self._is_running:
                        self._run_ended.wait()
                    else:
                        self._run_oldest()
            finally:
                if call in self.waiting:  # this thread was interrupted
                    self.waiting.remove(call)
        if call.error is not None:
            try:
                raise call.error
            finally:
                del call  # breaks the reference cycle of traceback and frame
        answer: R = call.result
        return answer

    def gather(self) -> None:
        """Wait for the callers of the last two batches to call again, with `arrival` held."""
        # The streams of a batch call again one after the other, and the first would run alone.  The
        # only stream of a backend never waits.
        expected = min(len(self._recent[0] | self._recent[1]), MAX_BATCH)
        if self._batches_without_wait:
            self._batches_without_wait -= 1
        elif not self.arrival.wait_for(
            lambda: len(self.waiting) >= expected, WAIT_SHARE * self._run_seconds
        ):
            self._batches_without_wait = BATCHES_WITHOUT_WAIT

    def _run_oldest(self) -> None:
        self._is_running = True
        try:
            self.gather()
            # The oldest call chooses the kind, so that it waits for at most one run of another.
            kind = self.waiting[0].kind
            batch = [call for call in self.waiting if call.kind == kind][:MAX_BATCH]
            self._recent = (self._recent[1], frozenset(call.run for call in batch))
            began = perf_counter()
            self._lock.release()  # so that other streams can call meanwhile
            try:
                self._answer(batch)
            finally:
                self._lock.acquire()
                self._run_seconds = perf_counter() - began
        finally:
            self._is_running = False
            self.waiting = [call for call in self.waiting if not call.is_answered]
            self._run_ended.notify_all()

    def _answer(self, batch: list[_Call]) -> None:
        self.run_count += 1
        try:
            results = batch[0].run([call.argument for call in batch])
            if len(results) != len(batch):
                raise RuntimeError(  # noqa: TRY301 -- treated as an error of the engine
                    f"expected {len(batch)} answers from the engine, one per call of the batch, "
                    f"got {len(results)}"
                )
        except Exception as error:  # noqa: BLE001 -- raised again by the call that causes it
            if len(batch) == 1:
                batch[0].error, batch[0].is_answered = error, True
                return
            # So the engine need not report which call failed; and if memory suffices for only one
            # call, a batch costs time but breaks no stream.
            for call in batch:
                self._answer([call])
            return
        for call, result in zip(batch, results, strict=True):
            call.result, call.is_answered = result, True
