"""Engine calls: counted over all streams of a backend, with seams by which tests disturb them."""

from __future__ import annotations

from functools import wraps
import threading
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    cast,
    runtime_checkable,
)

import attrs

from wlk_core.online.engine_batches import EngineBatches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["CanBeCutShort", "EngineCalls", "EngineFault"]

P = ParamSpec("P")
Q = TypeVar("Q")
R = TypeVar("R")

_NO_CUTS: Mapping[int, float] = MappingProxyType({})


class EngineFault(RuntimeError):  # noqa: N818 -- a fault that a test requested, no mistake
    """The fault that `EngineCalls` raises in place of an engine, because a test requested it."""


@runtime_checkable
class CanBeCutShort(Protocol):
    """An answer of an engine that knows how it looks where the engine ended its text early."""

    def cut_short(self, share: float) -> Self:
        """Return the answer with the first *share* of its text, 0 <= share < 1."""
        ...


class EngineCalls:
    """
    The engine calls of one loaded model, the same object for all of its streams.

    A backend passes every function that runs its model through `wrap`; nothing else is needed for
    the rules of the contract on failure, threads and limits to be tested on it::

        def open_stream(engine, config, calls):
            transcribe = calls.wrap(partial(engine.transcribe, task=config.task))
            return partial(LocalAgreementRecognizer, transcribe, language=config.language)

    An engine that answers several streams in one run goes through `wrap_batch` instead.

    Tests, and nothing else, set the seams:

    * `fail_before` has the numbers of calls that raise EngineFault instead of running the engine.
      The first call is number 1.
    * `fail_after` has the numbers of calls that raise EngineFault after the engine ran, so that
      its result is lost and a cache it changed is ahead of its stream.
    * `cut_short` has the numbers of calls whose answer ends early, as at an end of text, a
      repetition guard or a full context, each with the share of its text to keep, from 0 to 1.
      `cut_count` is the number of answers that were cut; an answer that cannot be cut stays whole.
    * `before_call`, where it is not None, is run by the calling thread before each call is counted.
      It may wait, which holds the engine; no lock is held meanwhile.
    * `together` is the number of calls that each run of a batched engine waits for, however long
      that takes; 0 for none.  So streams in threads have the same batches in every run.

    The counters may be read and the seams may be set from any thread; they act on the next call.

    Args:
        is_batching: whether calls of `wrap_batch` are taken together; if not, each is alone.

    """

    def __init__(self, *, is_batching: bool = False) -> None:
        self._batches = EngineBatches() if is_batching else None
        self.fail_before: frozenset[int] = frozenset()
        self.fail_after: frozenset[int] = frozenset()
        self.cut_short: Mapping[int, float] = _NO_CUTS
        self.before_call: Callable[[], None] | None = None
        self._count = 0
        self._cut_count = 0
        self._counting = threading.Lock()

    @property
    def count(self) -> int:
        """The number of calls so far, of all streams and of `warmup`, failed ones included."""
        return self._count

    @property
    def cut_count(self) -> int:
        """The number of answers so far that were cut short, of all streams and of `warmup`."""
        return self._cut_count

    @property
    def is_batching(self) -> bool:
        """Whether calls of `wrap_batch` are taken together."""
        return self._batches is not None

    @property
    def batch_count(self) -> int:
        """The runs of a batched engine so far, each for one or more calls; 0 without batching."""
        return 0 if self._batches is None else self._batches.run_count

    @property
    def together(self) -> int:
        """The number of calls that a run of a batched engine waits for."""
        return 0 if self._batches is None else self._batches.together

    @together.setter
    def together(self, count: int) -> None:
        if self._batches is not None:
            self._batches.together = count

    def wrap(
        self, function: Callable[P, R], *, cut: Callable[[R, float], R] | None = None
    ) -> Callable[P, R]:
        """
        Return *function* as an engine call: it is counted, and disturbed where a test requests it.

        Wrap what runs the model once and may fail, no more and no less: a wrapped function calls
        no other wrapped function.  It takes and returns what *function* does, may be called from
        several threads at once where *function* may, and keeps nothing of a stream.

        *cut* takes an answer and returns it with a share of its text.  Hypothesis and
        AlignedHypothesis need none, nor does any other answer with a method `cut_short`.
        """

        @wraps(function, updated=())  # a callable object keeps its attributes to itself
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            number = self._begin()
            _fail(self.fail_before, [number], when="before")
            result = function(*args, **kwargs)
            _fail(self.fail_after, [number], when="after")
            return self._end(number, result, cut)

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

        The seams are those of each call, as with `wrap`.  A fault that a test requested fails the
        run of its batch, as a fault of the engine does, and then that call alone.  Call
        `wrap_batch` once for each stream.
        """
        run, batches, caller = _BatchedFunction(self, function), self._batches, object()

        @wraps(function, updated=())
        def call(argument: Q) -> R:
            numbered = (self._begin(), argument)
            if batches is None:
                result = run([numbered])[0]
            else:
                result = batches.call(run, numbered, caller=caller)
            return self._end(numbered[0], result, cut)

        return call

    def _begin(self) -> int:
        """Wait as long as a test holds the engine, and return the number of the call."""
        if (hold := self.before_call) is not None:
            hold()
        with self._counting:
            self._count += 1
            return self._count

    def _end(self, number: int, result: R, cut: Callable[[R, float], R] | None) -> R:
        """Return the answer of call *number*, cut short where a test requests it."""
        share = self.cut_short.get(number)
        return result if share is None else self._cut(result, share, cut)

    def _cut(self, result: R, share: float, cut: Callable[[R, float], R] | None) -> R:
        """Return *result* with a share of its text, or whole where it cannot be cut."""
        if cut is not None:
            shortened = cut(result, share)
        elif isinstance(result, CanBeCutShort):
            shortened = cast("R", result.cut_short(share))
        else:
            return result
        with self._counting:
            self._cut_count += 1
        return shortened


@attrs.frozen
class _BatchedFunction(Generic[Q, R]):
    """A function that answers numbered calls together; equal for the streams of one engine."""

    calls: EngineCalls
    function: Callable[[Sequence[Q]], Sequence[R]]

    def __call__(self, numbered: Sequence[tuple[int, Q]]) -> Sequence[R]:
        numbers = [number for number, _ in numbered]
        _fail(self.calls.fail_before, numbers, when="before")
        results = self.function([argument for _, argument in numbered])
        _fail(self.calls.fail_after, numbers, when="after")
        return results


def _fail(faults: frozenset[int], numbers: Sequence[int], *, when: str) -> None:
    """Raise EngineFault where one of the calls *numbers* is to fail."""
    for number in numbers:
        if number in faults:
            raise EngineFault(f"engine call {number} failed on request, {when} the engine ran")
