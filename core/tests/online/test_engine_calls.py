"""Engine calls: counted, intercepted if a test asks for it, and batched."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from wlk_core import BackendError
from wlk_core.online.engine_calls import BATCHES_WITHOUT_WAIT, MAX_BATCH, EngineBatches
from wlk_core.plugins import EngineCalls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wlk_core.online.engine_calls import EngineRun

PATIENCE = 120.0  # seconds, for events that should come at once


@pytest.fixture
def calls() -> Any:
    """Return the calls of an engine that never ran."""
    return EngineCalls()


def test_calls_of_many_threads_are_all_counted(calls: EngineCalls) -> None:
    """No call of eight threads is lost, and the interceptor gets each number once."""
    numbers: list[int] = []

    def intercept(run: EngineRun) -> Sequence[Any]:
        numbers.extend(run.numbers)
        return run.answer()

    calls.intercept = intercept
    engine = calls.wrap(len)

    def run(_thread: Any) -> int:
        return sum(engine("a") for _ in range(1000))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run, range(8))) == [1000] * 8

    assert calls.count == 8000
    assert sorted(numbers) == list(range(1, 8001))


@pytest.mark.parametrize("is_batching", [False, True])
def test_a_call_in_a_forked_process_fails_at_once(
    monkeypatch: pytest.MonkeyPatch, *, is_batching: bool
) -> None:
    """An engine's threads are missing there, so that it would never answer."""
    calls = EngineCalls(is_batching=is_batching)
    engine = calls.wrap_batch(lambda texts: [len(text) for text in texts])
    assert engine("a") == 1
    monkeypatch.setattr(os, "getpid", lambda: 1)

    with pytest.raises(BackendError, match="does not run in one forked from it; load it after"):
        engine("a")


def test_an_intercepted_call_can_fail_or_have_another_answer(calls: EngineCalls) -> None:
    """The interceptor decides whether the function runs, and gets its answer and its cut."""
    reached: list[str] = []

    def upper(text: str) -> str:
        reached.append(text)
        return text.upper()

    def intercept(run: EngineRun) -> Sequence[Any]:
        if run.numbers == (2,):
            raise RuntimeError("on request")
        assert run.cut is not None
        return [run.cut(answer, 0.5) for answer in run.answer()]

    call = calls.wrap(upper, cut=lambda text, share: text[: int(share * len(text))])
    calls.intercept = intercept
    first = call("abcd")
    with pytest.raises(RuntimeError, match="on request"):
        call("efgh")
    calls.intercept = None

    assert (first, call("abcd")) == ("AB", "ABCD")
    assert reached == ["abcd", "abcd"]
    assert calls.count == 3


class Engine:
    """An engine that doubles numbers, fails on negative ones and records its batches."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def double(self, numbers: Sequence[int]) -> list[int]:
        """Return the doubles in the same order."""
        self.batches.append(sorted(numbers))
        if min(numbers) < 0:
            raise ValueError(f"negative: {min(numbers)}")
        return [2 * number for number in numbers]

    def triple(self, numbers: Sequence[int]) -> list[int]:
        """Return three times the numbers."""
        return [3 * number for number in numbers]


@pytest.fixture
def engine() -> Engine:
    """Return an engine that never ran."""
    return Engine()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Return threads for eight streams."""
    with ThreadPoolExecutor(8) as pool:
        yield pool


@contextmanager
def held(batches: EngineBatches, pool: ThreadPoolExecutor, count: int) -> Iterator[None]:
    """Keep the engine busy until *count* calls of the block wait for it."""
    running, go_on = threading.Event(), threading.Event()

    def hold(numbers: Sequence[int]) -> Sequence[int]:
        running.set()
        assert go_on.wait(PATIENCE)
        return numbers

    holding = pool.submit(batches.call, hold, 0, kind="the test")
    assert running.wait(PATIENCE)
    yield
    with batches.arrival:
        assert batches.arrival.wait_for(lambda: len(batches.waiting) > count, PATIENCE)
    go_on.set()
    assert holding.result(PATIENCE) == 0


def together(
    pool: ThreadPoolExecutor, calls: EngineCalls, functions: list[Callable[[int], int]], *n: int
) -> list[Any]:
    """Call all functions at once, each with its number; return results and errors in order."""
    assert calls.batches is not None
    with held(calls.batches, pool, len(n)):
        futures = [pool.submit(call, number) for call, number in zip(functions, n, strict=True)]
    errors = [future.exception(PATIENCE) for future in futures]
    return [
        future.result() if error is None else error
        for future, error in zip(futures, errors, strict=True)
    ]


def test_calls_of_several_streams_are_one_run(engine: Engine, threads: ThreadPoolExecutor) -> None:
    """Each stream gets its own answer, and the engine runs once; `cut` may be a new partial."""
    calls = EngineCalls(is_batching=True)
    doubles = [calls.wrap_batch(engine.double, cut=partial(max)) for _ in range(3)]

    assert together(threads, calls, doubles, 1, 2, 3) == [2, 4, 6]
    assert engine.batches == [[1, 2, 3]]
    assert (calls.count, calls.batch_count) == (3, 2)  # and the run of `held`


def test_an_error_reaches_the_stream_that_caused_it(
    engine: Engine, threads: ThreadPoolExecutor
) -> None:
    """After the batch has failed, each call is repeated alone."""
    calls = EngineCalls(is_batching=True)
    doubles = [calls.wrap_batch(engine.double) for _ in range(3)]
    first, error, last = together(threads, calls, doubles, 1, -2, 3)

    assert (first, last) == (2, 6)
    assert isinstance(error, ValueError)
    assert str(error) == "negative: -2"
    assert [engine.batches[0], *sorted(engine.batches[1:])] == [[-2, 1, 3], [-2], [1], [3]]


def test_a_wrong_number_of_answers_is_an_error(threads: ThreadPoolExecutor) -> None:
    """No stream gets the answer to another stream's call."""
    calls = EngineCalls(is_batching=True)

    def one_short(numbers: Sequence[int]) -> Sequence[int]:
        return numbers[1:]

    errors = together(threads, calls, [calls.wrap_batch(one_short) for _ in range(2)], 1, 2)

    assert [str(error).partition(",")[0] for error in errors] == [
        "expected 1 answers from the engine",
        "expected 1 answers from the engine",
    ]


def test_an_interrupt_ends_the_call_of_its_thread_only(threads: ThreadPoolExecutor) -> None:
    """An interrupt of the thread that runs a batch does not reach the others: they run again."""
    interrupts = iter([KeyboardInterrupt()])

    def interrupted(numbers: Sequence[int]) -> Sequence[int]:
        for interrupt in interrupts:
            raise interrupt
        return numbers

    batches = EngineBatches()
    with held(batches, threads, 2):
        futures = [threads.submit(batches.call, interrupted, n, kind=1) for n in (1, 2)]
    errors = [future.exception(PATIENCE) for future in futures]

    assert {type(error).__name__ for error in errors} == {"KeyboardInterrupt", "NoneType"}
    assert batches.call(interrupted, 5, kind=1) == 5


def test_functions_are_not_mixed(engine: Engine, threads: ThreadPoolExecutor) -> None:
    """A batch contains calls of one function; the other calls form the next batch."""
    calls = EngineCalls(is_batching=True)
    functions = [calls.wrap_batch(f) for f in (engine.double, engine.triple, engine.double)]

    assert together(threads, calls, functions, 10, 10, 10) == [20, 30, 20]
    assert engine.batches == [[10, 10]]


def test_the_call_that_waits_longest_leads_next(threads: ThreadPoolExecutor) -> None:
    """A stream with a backlog calls again at once, but does not overtake another one."""
    batches, runs, is_running = EngineBatches(), list[str](), threading.Event()

    def run(numbers: Sequence[int]) -> Sequence[int]:
        runs.append("backlog")
        is_running.set()
        with batches.arrival:
            assert batches.arrival.wait_for(
                lambda: len(runs) > 1 or len(batches.waiting) > 1, PATIENCE
            )
        return numbers

    def work_off() -> None:
        for number in range(2):
            batches.call(run, number, kind="backlog")

    def other(numbers: Sequence[int]) -> Sequence[int]:
        runs.append("other")
        return numbers

    backlog = threads.submit(work_off)
    assert is_running.wait(PATIENCE)
    batches.call(other, 2, kind="other")
    backlog.result(PATIENCE)

    assert runs == ["backlog", "other", "backlog"]


def test_a_batch_is_bounded(threads: ThreadPoolExecutor) -> None:
    """The next run takes the remaining calls."""
    sizes: list[int] = []

    def count(numbers: Sequence[int]) -> Sequence[int]:
        sizes.append(len(numbers))
        return numbers

    batches = EngineBatches()
    with ThreadPoolExecutor(MAX_BATCH + 1) as many:
        with held(batches, threads, MAX_BATCH + 1):
            futures = [many.submit(batches.call, count, n, kind=1) for n in range(MAX_BATCH + 1)]
        assert [future.result(PATIENCE) for future in futures] == list(range(MAX_BATCH + 1))

    assert sizes == [MAX_BATCH, 1]


def test_a_leader_waits_for_the_callers_of_the_last_two_batches(engine: Engine) -> None:
    """A lone caller never waits, and a wait in vain is not repeated for a while."""
    batches, streams = EngineBatches(), [partial(engine.double) for _ in range(2)]
    waits: list[bool] = []

    def wait_for(predicate: Callable[[], bool], seconds: float | None = None) -> bool:
        if seconds is not None:  # else a call waits for the engine
            waits.append(not predicate() and seconds > 0)
        return predicate()

    batches.arrival.wait_for = wait_for  # type: ignore[method-assign,assignment]
    for _ in range(3):
        batches.call(streams[0], 1, kind="double")
    alone = list(waits)
    for turn in range(BATCHES_WITHOUT_WAIT + 4):
        batches.call(streams[turn % 2], 1, kind="double")

    assert alone == [False] * 3
    assert waits[3:] == [False, False, True, True]
