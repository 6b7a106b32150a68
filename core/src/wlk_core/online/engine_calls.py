"""Engine calls: counted over all streams of a backend, with one seam around the engine."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial, wraps
import threading
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import attrs

from wlk_core.errors import BackendError, WLKError
from wlk_core.online.engine_batches import EngineBatches
from wlk_core.untrusted import reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["EngineCalls", "EngineRun", "engine_errors"]

P = ParamSpec("P")
Q = TypeVar("Q")
R = TypeVar("R")


@contextmanager
def engine_errors(problem: str) -> Iterator[None]:
    """
    Raise what an engine raises outside the calls of a stream as BackendError, with its cause.

    Errors of this project pass, such as the OptionError of a plugin.
    """
    try:
        yield
    except WLKError:
        raise
    except Exception as error:
        raise BackendError(f"{problem}: {reason(error)}") from error


@attrs.frozen(kw_only=True)
class EngineRun:
    """
    One run of an engine, as `EngineCalls.intercept` gets it.

    Attributes:
        numbers: the numbers of the calls that it answers; the first call of a backend is number 1.
        answer: runs the engine; returns one answer for each call, in the same order.
        cut: takes an answer and a share from 0 to 1, and returns the answer with that share of its
            text; None where the backend gave no such function.

    """

    numbers: tuple[int, ...]
    answer: Callable[[], Sequence[Any]]
    cut: Callable[[Any, float], Any] | None


class EngineCalls:
    """
    The engine calls of one loaded model, the same object for all of its streams.

    A backend passes every function that runs its model through `wrap`; nothing else is needed for
    the rules of the contract on failure, threads and limits to be tested on it::

        def open_stream(engine, config, calls):
            transcribe = calls.wrap(partial(engine.transcribe, task=config.task))
            return partial(LocalAgreementRecognizer, transcribe, language=config.language)

    An engine that answers several streams in one run goes through `wrap_batch` instead.

    `intercept`, where it is not None, is called in place of each run of the engine, in the same
    thread and with no lock held.  It may wait, raise before or after ``run.answer()``, and return
    other answers; what it raises is a failure of the engine.  Tests alone set it, as
    `wlk_conformance.EngineFaults` does.  It and the counters may be used from any thread.

    `batches` takes the calls of `wrap_batch` together; None where each of them runs alone.

    Args:
        is_batching: whether calls of `wrap_batch` are taken together; if not, each is alone.

    """

    def __init__(self, *, is_batching: bool = False) -> None:
        self.batches = EngineBatches() if is_batching else None
        self.intercept: Callable[[EngineRun], Sequence[Any]] | None = None
        self._count = 0
        self._counting = threading.Lock()

    @property
    def count(self) -> int:
        """The number of calls so far, of all streams and of `warmup`, failed ones included."""
        return self._count

    @property
    def is_batching(self) -> bool:
        """Whether calls of `wrap_batch` are taken together."""
        return self.batches is not None

    @property
    def batch_count(self) -> int:
        """The runs of a batched engine so far, each for one or more calls; 0 without batching."""
        return 0 if self.batches is None else self.batches.run_count

    def wrap(
        self, function: Callable[P, R], *, cut: Callable[[R, float], R] | None = None
    ) -> Callable[P, R]:
        """
        Return *function* as an engine call: counted, and intercepted where a test requests it.

        Wrap what runs the model once and may fail, no more and no less: a wrapped function calls
        no other wrapped function.  It takes and returns what *function* does, may be called from
        several threads at once where *function* may, and keeps nothing of a stream.

        *cut* takes an answer and returns it with a share of its text, as if the engine had ended
        its text early; Hypothesis and AlignedHypothesis need none.
        """

        @wraps(function, updated=())  # a callable object keeps its attributes to itself
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            def answer() -> tuple[R]:
                return (function(*args, **kwargs),)

            return self.run((self._next_number(),), answer, cut)[0]

        return call

    def wrap_batch(
        self,
        function: Callable[[Sequence[Q]], Sequence[R]],
        *,
        cut: Callable[[R, float], R] | None = None,
    ) -> Callable[[Q], R]:
        """
        Return an engine call of one stream that is taken together with those of other streams.

        *function* takes the arguments of several calls and returns their answers in the same order.
        It gets all calls that came while the engine was busy (see `EngineBatches`); a call that is
        alone never waits.  It runs in the thread of any of them, one run at a time.  It must leave
        the arguments as they are, because after a failure each call is made again alone.

        Call `wrap_batch` once for each stream; *cut* is that of `wrap`.
        """
        run, caller = _BatchedFunction(self, function, cut), object()

        @wraps(function, updated=())
        def call(argument: Q) -> R:
            numbered = (self._next_number(), argument)
            if self.batches is None:
                return run([numbered])[0]
            return self.batches.call(run, numbered, caller=caller)

        return call

    def run(
        self,
        numbers: tuple[int, ...],
        answer: Callable[[], Sequence[R]],
        cut: Callable[[R, float], R] | None,
    ) -> Sequence[R]:
        """Run the engine for the calls *numbers*, or let a test do so; see EngineRun."""
        intercept = self.intercept
        if intercept is None:
            return answer()
        return intercept(EngineRun(numbers=numbers, answer=answer, cut=cut))

    def _next_number(self) -> int:
        with self._counting:
            self._count += 1
            return self._count


@attrs.frozen
class _BatchedFunction(Generic[Q, R]):
    """A function that answers numbered calls together; equal for the streams of one engine."""

    calls: EngineCalls
    function: Callable[[Sequence[Q]], Sequence[R]]
    # Each stream may bring a cut of its own, such as a new partial, and is batched all the same.
    cut: Callable[[R, float], R] | None = attrs.field(eq=False)

    def __call__(self, numbered: Sequence[tuple[int, Q]]) -> Sequence[R]:
        answer = partial(self.function, [argument for _, argument in numbered])
        return self.calls.run(tuple(number for number, _ in numbered), answer, self.cut)
