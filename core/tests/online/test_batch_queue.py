"""Which calls an engine takes together, and who leads."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core.online.engine_batches import (
    BATCHES_WITHOUT_WAIT,
    MAX_BATCH,
    WAIT_SHARE,
    BatchQueue,
)


def queue_of(callers: str) -> BatchQueue[str]:
    """Return a queue with a call of each caller, in their order."""
    queue: BatchQueue[str] = BatchQueue()
    for caller in callers:
        queue.put(caller, function="decode", caller=caller)
    return queue


def run(queue: BatchQueue[str], callers: str, *, has_waited: bool = False) -> list[str]:
    """Take the calls of these callers together, in a run of a second."""
    for caller in callers:
        queue.put(caller, function="decode", caller=caller)
    batch = queue.take(has_waited=has_waited)
    queue.end(1.0)
    return batch


def test_a_batch_is_bounded() -> None:
    """The rest is taken by the next run."""
    queue: BatchQueue[int] = BatchQueue()
    for call in range(MAX_BATCH + 1):
        queue.put(call, function="decode", caller=call)

    assert list(range(MAX_BATCH)) == queue.take()
    assert MAX_BATCH == queue.end(1.0)


def test_a_caller_that_is_alone_never_waits() -> None:
    """However often it calls."""
    queue = queue_of("")
    for _ in range(3):
        run(queue, "a")

    queue.put("a", function="decode", caller="a")
    assert 0.0 == queue.wait_seconds


def test_a_leader_waits_for_the_callers_of_the_last_two_batches() -> None:
    """It waits for a part of the last run, and no longer once all of them are there."""
    queue = queue_of("")
    run(queue, "a")
    run(queue, "bcd")
    queue.put("b", function="decode", caller="b")

    assert 4 == queue.expected
    assert WAIT_SHARE == queue.wait_seconds
    for caller in "cda":
        queue.put(caller, function="decode", caller=caller)
    assert 0.0 == queue.wait_seconds


def test_a_wait_in_vain_is_not_repeated_for_a_while() -> None:
    """Two streams whose audio comes at other times of a tick cost each other next to nothing."""
    queue = queue_of("")
    waits: list[bool] = []
    for turn in range(4 * (BATCHES_WITHOUT_WAIT + 1)):
        queue.put("ab"[turn % 2], function="decode", caller="ab"[turn % 2])
        waits.append(queue.wait_seconds > 0)
        queue.take(has_waited=waits[-1])
        queue.end(1.0)

    assert 1 + len(waits) // (BATCHES_WITHOUT_WAIT + 1) >= sum(waits) > 0


@pytest.mark.parametrize(("withdrawn", "successor"), [("b", "c"), ("c", None)])
def test_a_call_can_be_withdrawn(withdrawn: str, successor: str | None) -> None:
    """The leader's place goes to the oldest call that is left."""
    queue = queue_of("abc")
    queue.withdraw("a")

    assert successor == queue.withdraw(withdrawn)
    assert ["b" if withdrawn == "c" else "c"] == queue.take()


def test_calls_of_an_interrupted_batch_come_first() -> None:
    """They are taken before those that came later."""
    queue = queue_of("ab")
    queue.take()
    queue.put("c", function="decode", caller="c")
    queue.put_back([("b", "decode", "b")])

    assert "b" == queue.end()
    assert ["b", "c"] == queue.take()


@given(st.lists(st.sampled_from(["put", "align", "take", "end", "withdraw"]), max_size=60))
def test_every_call_is_taken_once_and_in_order(actions: list[str]) -> None:
    """Whatever comes in whatever order, no call is lost, and one that waits has a leader."""
    queue: BatchQueue[int] = BatchQueue()
    waiting: list[int] = []
    taken: list[int] = []
    leader, is_running, number = None, False, 0
    for action in actions:
        if action in {"put", "align"}:
            waiting.append(number)
            if queue.put(number, function=action, caller=number % 5):
                assert leader is None
                leader = number
            number += 1
        elif action == "take" and leader is not None and not is_running:
            batch = queue.take()
            is_running = True
            assert leader == batch[0] == waiting[0]
            assert sorted(batch) == batch
            waiting = [call for call in waiting if call not in batch]
            taken += batch
        elif action == "end" and is_running:
            leader, is_running = queue.end(1.0), False
        elif action == "withdraw" and len(waiting) > 1:
            gone = waiting.pop()
            assert queue.withdraw(gone) is None
        assert len(waiting) == len(queue)
        assert is_running or (leader is not None) == bool(waiting)
    assert len(set(taken)) == len(taken)
