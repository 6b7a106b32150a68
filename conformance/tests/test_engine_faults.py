"""Engine calls that fail, wait, end early or run in one batch, as a test requests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
import threading

import pytest

from wlk_conformance import EngineFault, EngineFaults
from wlk_core.plugins import EngineCalls

PATIENCE = 120.0  # seconds, although each result is expected at once


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

    assert reached == expected
    assert faults.count == 3


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
    """The other calls of the batch are repeated alone and answered; the failed one can be too."""
    engine = Engine()
    doubles = [batching.calls.wrap_batch(engine.double) for _ in range(3)]
    setattr(batching, seam, frozenset({2}))
    answers = together(batching, doubles, 7, 7, 7)

    assert sum(isinstance(answer, EngineFault) for answer in answers) == 1
    assert answers.count(14) == 2
    assert engine.batches == runs
    assert [call(7) for call in doubles] == [14] * 3


def test_each_call_of_a_batch_is_held(batching):
    """Calls meet in `before_call`, although runs of a batched engine never overlap."""
    meeting = threading.Barrier(2, timeout=PATIENCE)
    batching.before_call = meeting.wait
    doubles = [batching.calls.wrap_batch(Engine().double) for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(lambda call, n: call(n), doubles, [1, 2])) == [2, 4]
