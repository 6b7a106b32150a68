from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
import threading
from typing import Any

import pytest

from wlk_core.plugins import (
    AlignedHypothesis,
    AlignedWord,
    EngineCalls,
    EngineFault,
    Hypothesis,
)
from wlk_core.streaming import Word


@pytest.fixture
def calls() -> Any:
    """Return the calls of an engine that never ran."""
    return EngineCalls()


def test_a_wrapped_function_takes_and_returns_what_the_function_does(calls: EngineCalls) -> None:
    """Arguments, keywords and results pass unchanged, for partial functions too."""
    divide = calls.wrap(partial(divmod, 7))

    assert (3, 1) == divide(2)
    assert divmod(7, 2) == calls.wrap(divmod)(7, 2)


def test_all_wrapped_functions_count_together(calls: EngineCalls) -> None:
    """One counter covers every stream, whatever was wrapped."""
    first, second = calls.wrap(len), calls.wrap(abs)
    first("a")
    second(-1)
    first("b")

    assert 3 == calls.count


def test_a_call_that_fails_before_does_not_reach_the_engine(calls: EngineCalls) -> None:
    """The call of that number raises EngineFault, and the next one runs."""
    reached: list[str] = []
    engine = calls.wrap(reached.append)
    calls.fail_before = frozenset({2})
    engine("first")
    with pytest.raises(EngineFault, match="engine call 2 failed on request, before the engine ran"):
        engine("second")
    engine("third")

    assert ["first", "third"] == reached
    assert 3 == calls.count


def test_a_call_that_fails_after_has_run_the_engine(calls: EngineCalls) -> None:
    """The engine ran once and its result is lost."""
    reached: list[str] = []
    engine = calls.wrap(reached.append)
    calls.fail_after = frozenset({1})
    with pytest.raises(EngineFault, match="engine call 1 failed on request, after the engine ran"):
        engine("first")

    assert ["first"] == reached


def test_a_fault_of_the_engine_passes_and_is_counted(calls: EngineCalls) -> None:
    """An exception of the engine is neither wrapped nor left out of the count."""
    with pytest.raises(ZeroDivisionError):
        calls.wrap(divmod)(1, 0)

    assert 1 == calls.count


def test_a_hold_runs_before_a_call_is_counted(calls: EngineCalls) -> None:
    """`before_call` sees the number of calls before its own."""
    seen = []
    engine = calls.wrap(len)
    calls.before_call = lambda: seen.append(calls.count)
    engine("a")
    engine("b")
    calls.before_call = None
    engine("c")

    assert [0, 1] == seen


def test_a_held_call_holds_no_other_thread_back(calls: EngineCalls) -> None:
    """While one thread waits in `before_call`, another one can read the counter and call."""
    arrived, released = threading.Event(), threading.Event()

    def hold_the_first() -> None:
        if not arrived.is_set():
            arrived.set()
            released.wait(120)

    calls.before_call = hold_the_first
    engine = calls.wrap(len)
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(engine, "held")
        assert arrived.wait(120)
        assert 4 == engine("free")
        assert 1 == calls.count
        released.set()

        assert 4 == held.result(120)
    assert 2 == calls.count


def test_calls_of_many_threads_are_all_counted(calls: EngineCalls) -> None:
    """No call of eight threads is lost, and each number fails once."""
    engine = calls.wrap(len)
    calls.fail_before = frozenset(range(1, 8001, 2))

    def run(_thread: Any) -> Any:
        faults = 0
        for _ in range(1000):
            try:
                engine("a")
            except EngineFault:
                faults += 1
        return faults

    with ThreadPoolExecutor(8) as pool:
        faults = sum(pool.map(run, range(8)))

    assert 8000 == calls.count
    assert 4000 == faults


def test_wrapping_a_callable_object_copies_nothing_of_it(calls: EngineCalls) -> None:
    """A stateful decoder keeps its attributes to itself."""

    class Decoder:
        def __init__(self) -> None:
            self.cache = [1]

        def __call__(self) -> Any:
            return self.cache

    decoder = Decoder()
    wrapped = calls.wrap(decoder)

    assert decoder.cache is wrapped()
    assert not hasattr(wrapped, "cache")


def words(*texts: str) -> Any:
    """Return words one after another."""
    return tuple(Word(number, number + 1.0, text) for number, text in enumerate(texts))


def test_an_answer_can_be_cut_short(calls: EngineCalls) -> None:
    """A hypothesis of the call of that number keeps a share of its words, and nothing else."""
    transcribe = calls.wrap(lambda: Hypothesis(words=words(" a", " b", " c"), language="en"))
    calls.cut_short = {1: 0.0, 2: 0.5}

    assert [(), words(" a"), words(" a", " b", " c")] == [transcribe().words for _ in range(3)]
    assert "en" == transcribe().language
    assert 2 == calls.cut_count


def test_an_aligned_answer_can_be_cut_short(calls: EngineCalls) -> None:
    """AlignAtt's hypothesis loses whole words with their frames."""
    aligned = tuple(AlignedWord(word=word, frames=(1,)) for word in words(" a", " b"))
    decode = calls.wrap(lambda: AlignedHypothesis(words=aligned))
    calls.cut_short = {1: 0.5}

    assert aligned[:1] == decode().words


def test_an_answer_of_another_type_is_cut_by_the_function_that_wrap_was_given(
    calls: EngineCalls,
) -> None:
    """The plugin knows what the end of a text is in its answers."""
    decode = calls.wrap(str.upper, cut=lambda text, share: text[: int(share * len(text))])
    calls.cut_short = {2: 0.5}

    assert ["ABCD", "AB"] == [decode("abcd"), decode("abcd")]
    assert 1 == calls.cut_count


def test_an_answer_that_cannot_be_cut_stays_whole(calls: EngineCalls) -> None:
    """The counter shows that nothing was cut, so that a test cannot pass by it."""
    decode = calls.wrap(str.upper)
    calls.cut_short = {1: 0.0}

    assert "ABCD" == decode("abcd")
    assert 0 == calls.cut_count
