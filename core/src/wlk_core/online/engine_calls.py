"""Engine calls: counted over all streams of a backend, with seams by which tests fail or hold."""

from __future__ import annotations

from functools import wraps
import threading
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["EngineCalls", "EngineFault"]

P = ParamSpec("P")
R = TypeVar("R")


class EngineFault(RuntimeError):  # noqa: N818 -- a fault that a test requested, no mistake
    """The fault that `EngineCalls` raises in place of an engine, because a test requested it."""


class EngineCalls:
    """
    The engine calls of one loaded model, the same object for all of its streams.

    A backend passes every function that runs its model through `wrap`; nothing else is needed for
    the rules of the contract on failure and threads to be tested on it::

        def open_stream(engine, config, calls):
            transcribe = calls.wrap(partial(engine.transcribe, task=config.task))
            return partial(LocalAgreementRecognizer, transcribe, language=config.language)

    Tests, and nothing else, set the seams:

    * `fail_before` has the numbers of calls that raise EngineFault instead of running the engine.
      The first call is number 1.
    * `fail_after` has the numbers of calls that raise EngineFault after the engine ran, so that
      its result is lost and a cache it changed is ahead of its stream.
    * `before_call`, where it is not None, is run by the calling thread before each call is counted.
      It may wait, which holds the engine; no lock is held meanwhile.

    The counter may be read and the seams may be set from any thread; they act on the next call.
    """

    def __init__(self) -> None:
        self.fail_before: frozenset[int] = frozenset()
        self.fail_after: frozenset[int] = frozenset()
        self.before_call: Callable[[], None] | None = None
        self._count = 0
        self._counting = threading.Lock()

    @property
    def count(self) -> int:
        """The number of calls so far, of all streams and of `warmup`, failed ones included."""
        return self._count

    def wrap(self, function: Callable[P, R]) -> Callable[P, R]:
        """
        Return *function* as an engine call: it is counted, and fails or waits where a test asks.

        Wrap what runs the model once and may fail, no more and no less: a wrapped function calls
        no other wrapped function.  It takes and returns what *function* does, may be called from
        several threads at once where *function* may, and keeps nothing of a stream.
        """

        @wraps(function, updated=())  # a callable object keeps its attributes to itself
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if (hold := self.before_call) is not None:
                hold()
            with self._counting:
                self._count += 1
                number = self._count
            if number in self.fail_before:
                raise EngineFault(f"engine call {number} failed on request, before the engine ran")
            result = function(*args, **kwargs)
            if number in self.fail_after:
                raise EngineFault(f"engine call {number} failed on request, after the engine ran")
            return result

        return call
