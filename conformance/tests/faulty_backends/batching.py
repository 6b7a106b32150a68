"""Faulty backends that break ISO-07: engine calls of several streams, taken together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from faulty_backends.base import FaultyBackend, breaks
from wlk_conformance import EngineFault, EngineFaults
from wlk_conformance.scripted import SCRIPTED_SPEC
from wlk_core.plugins import EngineCalls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["BATCHING", "BatchingBackend"]

BATCHING = {"capabilities": SCRIPTED_SPEC.capabilities | {"batching"}}


class TogetherCalls(EngineCalls):
    """Engine calls whose batches the backend answers."""

    def __init__(self, backend: BatchingBackend, *, is_batching: bool) -> None:
        super().__init__(is_batching=is_batching)
        self._backend = backend

    def wrap_batch(self, function: Callable[..., Any], *, cut: Any = None) -> Callable[..., Any]:
        """Return the backend's answers as a call of a batch."""
        del function  # the backend answers in place of it
        batched = super().wrap_batch(self._backend.answers, cut=cut)

        def call(argument: Any) -> Any:
            try:
                return batched(argument)
            except EngineFault:
                self._backend.fault()
                raise

        return call


class BatchingBackend(FaultyBackend):
    """The scripted backend, without a fault, with its engine calls taken together."""

    is_batching = True

    def __init__(self) -> None:
        super().__init__()
        self._engine_calls = TogetherCalls(self, is_batching=self.is_batching)

    def answers(self, requests: Sequence[Callable[[], Any]]) -> list[Any]:
        """Answer each request of a batch."""
        return [request() for request in requests]

    def fault(self) -> None:
        """Notice that a call failed on request; the sound backend does nothing."""


@breaks("ISO-07", spec=BATCHING)
class MixesAnswersOfBatch(BatchingBackend):
    """Returns the answers of a batch that was waited for in the wrong order."""

    def answers(self, requests: Sequence[Callable[[], Any]]) -> list[Any]:
        """Answer in the reverse order."""
        answers = super().answers(requests)
        return answers[::-1] if EngineFaults.of(self.engine_calls).together else answers


@breaks("ISO-07", spec=BATCHING)
class FailsWholeBatch(BatchingBackend):
    """Lets a failure of one stream of a batch fail a call of another stream."""

    faults = 0

    def answers(self, requests: Sequence[Callable[[], Any]]) -> list[Any]:
        """Fail for all streams, and once more for the first of them alone."""
        if self.faults:
            self.faults -= 1
            raise EngineFault("the fault of another stream")
        return super().answers(requests)

    def fault(self) -> None:
        """Fail later, if runs are for several streams."""
        self.faults = 2 if EngineFaults.of(self.engine_calls).together else 0


@breaks("ISO-07", spec=BATCHING)
class TakesNothingTogether(BatchingBackend):
    """Declares batching and runs each engine call alone."""

    is_batching = False
