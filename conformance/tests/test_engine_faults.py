"""Faults on request: engine calls that fail, wait, end early or are taken together."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
import threading

import pytest

from wlk_conformance import EngineFault, EngineFaults
from wlk_core.plugins import AlignedHypothesis, AlignedWord, EngineCalls, Hypothesis
from wlk_core.streaming import Word

PATIENCE = 120.0  # seconds, for what is expected at once


@pytest.fixture
def faults():
    """Return faults of an engine that never ran."""
    return EngineFaults(EngineCalls())


@pytest.mark.parametrize(
    ("when", "expected"), [("before", ["first", "third"]), ("after", ["first", "second", "third"])]
)
def test_a_call_that_fails_raises_before_the_engine_runs_or_after_it(faults, when, expected):
    """The call of that number raises EngineFault, and the next one runs."""
    reached = []
    engine = faults.calls.wrap(reached.append)
    with faults.failing((2,), after=when == "after"):
        engine("first")
        with pytest.raises(EngineFault, match=f"call 2 failed on request, {when} the engine ran"):
            engine("second")
        engine("third")

    assert expected == reached
    assert 3 == faults.count


def test_a_held_call_holds_no_other_thread_back(faults):
    """While one thread waits in `before_call`, another one can read the counter and call."""
    arrived, released = threading.Event(), threading.Event()

    def hold_the_first():
        if not arrived.is_set():
            arrived.set()
            released.wait(120)

    faults.before_call = hold_the_first
    engine = faults.calls.wrap(len)
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(engine, "held")
        assert arrived.wait(120)
        assert 4 == engine("free")
        assert 2 == faults.count
        released.set()

        assert 4 == held.result(120)
    assert 2 == faults.count


def words(*texts):
    """Return words one after another."""
    return tuple(Word(number, number + 1.0, text) for number, text in enumerate(texts))


def test_an_answer_can_be_cut_short(faults):
    """A hypothesis of the call of that number keeps a share of its words, an unknown answer all."""
    transcribe = faults.calls.wrap(lambda: Hypothesis(words=words(" a", " b", " c"), language="en"))
    aligned = tuple(AlignedWord(word=word, frames=(1,)) for word in words(" a", " b"))
    decode = faults.calls.wrap(lambda: AlignedHypothesis(words=aligned))
    with faults.cutting({1: 0.0, 2: 0.5}):
        cut = [transcribe() for _ in range(3)]

    assert [(), words(" a"), words(" a", " b", " c")] == [answer.words for answer in cut]
    assert {"en"} == {answer.language for answer in cut}
    assert 2 == faults.cut_count
    with faults.cutting({1: 0.5, 2: 0.0}):
        assert aligned[:1] == decode().words
        assert "ABCD" == faults.calls.wrap(str.upper)("abcd")
    assert 3 == faults.cut_count


def test_an_answer_of_another_type_is_cut_by_the_function_that_wrap_was_given(
    faults,
):
    """The plugin knows what the end of a text is in its answers."""
    decode = faults.calls.wrap(str.upper, cut=lambda text, share: text[: int(share * len(text))])
    faults.cut_short = {2: 0.5}

    assert ["ABCD", "AB"] == [decode("abcd"), decode("abcd")]
    assert 1 == faults.cut_count


class Engine:
    """An engine that doubles numbers and records its batches."""

    def __init__(self):
        self.batches = []

    def double(self, numbers):
        """Return the doubles in the same order."""
        self.batches.append(sorted(numbers))
        return [2 * number for number in numbers]


@pytest.fixture
def batching():
    """Return faults of an engine that takes calls together."""
    return EngineFaults(EngineCalls(is_batching=True))


def together(faults, functions, *numbers):
    """Call each function with its number in one run; return results and errors in their order."""
    faults.together = len(numbers)
    with ThreadPoolExecutor(len(numbers)) as threads:
        pairs = zip(functions, numbers, strict=True)
        futures = [threads.submit(call, number) for call, number in pairs]
        errors = [future.exception(PATIENCE) for future in futures]
    faults.together = 0
    return [f.result() if e is None else e for f, e in zip(futures, errors, strict=True)]


@pytest.mark.parametrize(
    ("seam", "runs"), [("fail_before", [[7], [7]]), ("fail_after", [[7, 7, 7], [7], [7], [7]])]
)
def test_a_fault_in_a_batch_fails_the_run_and_reaches_one_stream(batching, seam, runs):
    """The others of its batch are made again alone and have their answers; it can be repeated."""
    engine = Engine()
    doubles = [batching.calls.wrap_batch(engine.double) for _ in range(3)]
    setattr(batching, seam, frozenset({2}))
    answers = together(batching, doubles, 7, 7, 7)

    assert 1 == sum(isinstance(answer, EngineFault) for answer in answers)
    assert 2 == answers.count(14)
    assert runs == engine.batches
    assert [14] * 3 == [call(7) for call in doubles]


def test_each_call_of_a_batch_is_held(batching):
    """Calls meet in `before_call`, although runs of a batched engine never overlap."""
    meeting = threading.Barrier(2, timeout=PATIENCE)
    batching.before_call = meeting.wait
    doubles = [batching.calls.wrap_batch(Engine().double) for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        assert [2, 4] == list(threads.map(lambda call, n: call(n), doubles, [1, 2]))


def test_runs_for_several_calls_wait_until_no_longer_requested(batching):
    """Of three calls of two functions, the two of one function run as soon as all wait."""
    engine = Engine()
    functions = [batching.calls.wrap_batch(f) for f in (engine.double, lambda n: [-x for x in n])]
    batching.together = 2
    with ThreadPoolExecutor(2) as threads:
        futures = [threads.submit(call, 10) for call in functions]
        wait(futures, PATIENCE, FIRST_COMPLETED)
        batching.together = 0
        assert [20, -10] == [future.result(PATIENCE) for future in futures]
