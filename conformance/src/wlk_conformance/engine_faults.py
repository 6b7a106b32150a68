"""Make engine calls fail, wait, end early or run in one batch, as a test requests."""

from __future__ import annotations

from contextlib import contextmanager
import threading
from typing import TYPE_CHECKING, Any

import attrs

from wlk_conformance.interfaces import SupportsEngineCalls
from wlk_core.online.engine_calls import EngineBatches
from wlk_core.plugins import Hypothesis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from wlk_core.online.engine_calls import EngineCalls, EngineRun
    from wlk_core.streaming import Word


class EngineFault(RuntimeError):  # noqa: N818 -- a test requested it
    """The error that `EngineFaults` raises in place of an engine, at the request of a test."""


# Used in turn, by the number of the call, because a wrapper may catch only some errors: those of a
# client library for a server that does not answer, is gone, sends what cannot be parsed, or leaves
# out what is looked up, and those of a framework without memory, known by their type or text.
KINDS = (
    EngineFault,
    *(
        type(f"{kind.__name__}Fault", (EngineFault, kind), {})
        for kind in (TimeoutError, ConnectionError, ValueError, IndexError, KeyError, MemoryError)
    ),
)


class EngineFaults:
    """
    Inject the faults that a test requests into engine calls, as `EngineCalls.intercept`.

    The attributes may be set from any thread and act on the next call; `failing`, `cutting`,
    `changing` and `held` set them for a block.
    """

    def __init__(self, calls: EngineCalls) -> None:
        self.calls = calls
        #: Numbers of calls, from 1, that raise EngineFault instead of running the engine.  In a
        #: batch they fail the run, and then that call alone.
        self.fail_before: frozenset[int] = frozenset()
        #: The same after the engine ran: a cache that it changed is ahead of its stream.
        self.fail_after: frozenset[int] = frozenset()
        #: Numbers of calls whose answer ends early, as after an end-of-text token, a repetition
        #: guard or a full context, each with the share of its text to keep, from 0 to 1.
        self.cut_short: Mapping[int, float] = {}
        self.cut_count = 0  #: answers that were cut; one that cannot be cut stays whole
        self.raised = 0  #: faults; a call that fails in a batch and then alone counts twice
        self.change: Callable[[Word], Word] | None = None  #: changes each word of an answer
        self.answers: list[tuple[Word, ...]] = []  #: the words of each answer that was changed
        self.worded = 0  #: answers that were a Hypothesis, whose words are known
        self.texts: set[str] = set()  #: their words, without spaces around them
        #: Run by the calling thread before the engine, with no lock held; it may wait.
        self.before_call: Callable[[], None] | None = None
        self._counting = threading.Lock()
        self._batches: _HeldBatches | None = None
        if calls.batches is not None:
            self._batches = _HeldBatches(self)
            self._batches.run_count = calls.batches.run_count
            calls.batches = self._batches
        calls.intercept = self

    @classmethod
    def of(cls, calls: EngineCalls) -> EngineFaults:
        """Return the faults of *calls*, which are installed by the first call of this function."""
        return calls.intercept if isinstance(calls.intercept, cls) else cls(calls)

    @classmethod
    def of_backend(cls, backend: object) -> EngineFaults | None:
        """Return the faults of a backend's engine calls, None if it has none."""
        return cls.of(backend.engine_calls) if isinstance(backend, SupportsEngineCalls) else None

    @property
    def count(self) -> int:
        """See EngineCalls."""
        return self.calls.count

    @property
    def together(self) -> int:
        """The number of calls that a run of a batched engine waits for, 0 to wait for none."""
        return 0 if self._batches is None else self._batches.together

    @together.setter
    def together(self, count: int) -> None:
        if self._batches is not None:
            with self._batches.arrival:
                self._batches.together = count
                self._batches.arrival.notify_all()

    def failing(
        self, numbers: Iterable[int], *, after: bool = False
    ) -> AbstractContextManager[None]:
        """Fail calls by number, 1 for the next one, before the engine runs or *after* it has."""
        failing = frozenset(self.count + number for number in numbers)
        return self._set("fail_after" if after else "fail_before", failing, frozenset())

    def cutting(self, shares: Mapping[int, float]) -> AbstractContextManager[None]:
        """Cut the answers of calls short, by number, 1 for the next one."""
        cuts = {self.count + number: share for number, share in shares.items()}
        return self._set("cut_short", cuts, {})

    def held(self, wait: Callable[[], None]) -> AbstractContextManager[None]:
        """Run *wait* before each call."""
        return self._set("before_call", wait, None)

    @contextmanager
    def changing(self, change: Callable[[Word], Word]) -> Iterator[list[tuple[Word, ...]]]:
        """Replace each word of an answer; yields the list of the answers as they are returned."""
        self.answers = []
        with self._set("change", change, None):
            yield self.answers

    @contextmanager
    def _set(self, name: str, value: object, default: object) -> Iterator[None]:
        setattr(self, name, value)
        try:
            yield
        finally:
            setattr(self, name, default)

    def hold(self) -> None:
        """Wait as long as a test holds the engine."""
        if (before_call := self.before_call) is not None:
            before_call()

    def __call__(self, run: EngineRun) -> Sequence[Any]:
        """Answer the calls of *run* with the faults that are set."""
        if not self.calls.is_batching:  # else each call was held by itself
            self.hold()
        self._fail(self.fail_before, run.numbers, when="before")
        answers = [self._changed(answer) for answer in run.answer()]
        self._fail(self.fail_after, run.numbers, when="after")
        if not self.cut_short or len(answers) != len(run.numbers):
            return answers
        pairs = zip(run.numbers, answers, strict=True)
        return [self._cut(number, answer, run.cut) for number, answer in pairs]

    def _fail(self, faults: frozenset[int], numbers: Sequence[int], *, when: str) -> None:
        for number in numbers:
            if number in faults:
                with self._counting:
                    self.raised += 1
                raise KINDS[number % len(KINDS)](
                    f"engine call {number} failed on request, {when} the engine ran, as if it were "
                    "out of memory"
                )

    def _changed(self, answer: Any) -> Any:
        """Return *answer* with its words changed by `change`, and note both."""
        if not isinstance(answer, Hypothesis):
            return answer
        self.worded += 1
        self.texts.update(word.text.strip() for word in answer.words)
        if self.change is None:
            return answer
        words = tuple(map(self.change, answer.words))
        self.answers.append(words)
        return attrs.evolve(answer, words=words)

    def _cut(self, number: int, answer: Any, cut: Callable[[Any, float], Any] | None) -> Any:
        share, has_words = self.cut_short.get(number), isinstance(answer, Hypothesis)
        if share is None or (cut is None and not has_words):
            return answer
        with self._counting:
            self.cut_count += 1
        if cut is not None:
            return cut(answer, share)
        return attrs.evolve(answer, words=answer.words[: int(share * len(answer.words))])


class _HeldBatches(EngineBatches):
    """Batches whose calls are held one by one, and whose runs wait for `together` calls."""

    def __init__(self, faults: EngineFaults) -> None:
        super().__init__()
        self.together = 0
        self._faults = faults

    def call(
        self, run: Callable[[Sequence[Any]], Sequence[Any]], argument: Any, *, kind: object
    ) -> Any:
        """Hold the call, and then let it wait for the engine."""
        self._faults.hold()
        return super().call(run, argument, kind=kind)

    def gather(self) -> None:
        """Wait for `together` calls, however long that takes."""
        if not self.together:
            super().gather()
        self.arrival.wait_for(lambda: len(self.waiting) >= self.together)
