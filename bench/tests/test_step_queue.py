from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_bench.capacity.prediction import first_chunks, predict, predict_sessions
from wlk_bench.capacity.service_times import ServiceTimes
from wlk_bench.capacity.step_queue import StepQueue
from wlk_serve.scheduler.deadlines import DeadlineQueue

from .conftest import steady

# Sixty-fourths of a second, which floats add exactly.
TIMES = st.integers(0, 640).map(lambda number: number / 64)
COSTS = st.integers(1, 64).map(lambda number: number / 64)
CHUNKS = st.lists(st.tuples(TIMES, COSTS), min_size=1, max_size=40)


def queue_of(chunks, *, workers=1, deadlines=None):
    """Return a queue to which chunks of (arrival, cost) were added; due in their order."""
    queue = StepQueue(ServiceTimes.constant(1.0, workers=workers))
    arrivals, costs = np.array(sorted(chunks)).T
    queue.add(arrivals, arrivals + 0.5 if deadlines is None else np.array(deadlines), costs)
    return queue


def batching(by_streams, *, workers=4):
    """Return the costs of a backend that takes chunks together."""
    return ServiceTimes(
        chunk_seconds=0.5,
        tick_seconds=0.5,
        workers=workers,
        is_batching=True,
        by_streams={streams: ((cost,),) for streams, cost in by_streams.items()},
    )


@pytest.mark.parametrize("sessions", [1, 4, 20])
def test_sessions_that_take_turns_never_wait(sessions):
    """Where a chunk costs no more than the time until the next one, its delay is its cost."""
    prediction = predict(ServiceTimes.constant(0.025), sessions, seconds=10)

    assert prediction.p99_delay == pytest.approx(0.025)
    assert prediction.p99_lateness == pytest.approx(0.025 - 0.5)
    assert prediction.utilisation == pytest.approx(sessions * 0.05)


def test_sessions_beyond_the_capacity_fall_back_by_the_same_for_each_chunk():
    """Ten sessions of 60 ms in chunks of half a second: chunk number k waits k times 10 ms."""
    sessions, cost, chunks = 10, 0.06, 20
    prediction = predict(ServiceTimes.constant(cost), sessions, seconds=chunks * 0.5)

    delays = [cost + k * (cost - 0.5 / sessions) for k in range(sessions * chunks)]
    assert prediction.p99_delay == pytest.approx(np.percentile(delays, 99))


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_predicted_sessions_are_those_that_fill_the_workers(workers):
    """Chunks of 20 ms, 50 a second on each worker: 25 sessions of half a second."""
    service = ServiceTimes.constant(0.02, workers=workers)

    assert predict_sessions(service, p99_lateness=0.0, seconds=60) == pytest.approx(
        25 * workers, abs=1
    )


def test_a_backend_that_is_slower_than_real_time_keeps_no_session():
    """A chunk costs twice its length."""
    assert 0 == predict_sessions(ServiceTimes.constant(1.0), p99_lateness=0.0, seconds=20)


def test_random_arrivals_wait_as_the_formula_of_queues_with_constant_costs_gives():
    """M/D/1: the mean wait is load * cost / (2 * (1 - load)), by Pollaczek and Khinchine."""
    load, cost, count = 0.8, 0.02, 400_000
    rng = np.random.default_rng(0)
    arrivals = np.cumsum(rng.exponential(cost / load, count))
    queue = StepQueue(ServiceTimes.constant(cost))
    queue.add(arrivals, arrivals, np.full(count, cost))

    waits = queue.advance()[0] - cost

    assert waits.mean() == pytest.approx(load * cost / (2 * (1 - load)), rel=0.03)


@steady
@given(CHUNKS, st.integers(1, 4), st.booleans())
def test_every_chunk_is_done_once(chunks, workers, is_in_order):
    """Also where the deadlines are in another order than the arrivals; no work is lost."""
    deadlines = None if is_in_order else [-arrival for arrival, _ in sorted(chunks)]
    queue = queue_of(chunks, workers=workers, deadlines=deadlines)

    delays, latenesses = queue.advance()

    assert len(delays) == len(latenesses) == len(chunks)
    assert 0 == len(queue)
    assert queue.busy_seconds == pytest.approx(sum(cost for _, cost in chunks))
    assert min(delays) >= min(cost for _, cost in chunks)


@steady
@given(CHUNKS, st.integers(1, 4), st.lists(TIMES, max_size=6), st.booleans())
def test_the_times_at_which_a_queue_is_advanced_change_nothing(chunks, workers, moments, is_edf):
    """A replica is advanced whenever its sessions change, and at the end."""
    deadlines = [-arrival for arrival, _ in sorted(chunks)] if is_edf else None
    whole = queue_of(chunks, workers=workers, deadlines=deadlines)
    parts = queue_of(chunks, workers=workers, deadlines=deadlines)

    done = [parts.advance(moment)[0] for moment in sorted(moments)]

    assert sorted(whole.advance()[0]) == sorted([*np.concatenate([*done, parts.advance()[0]])])


@steady
@given(CHUNKS, st.integers(1, 4))
def test_the_fast_ways_find_what_the_queue_of_deadlines_finds(chunks, workers):
    """Chunks that are due in the order of their arrivals need no queue of deadlines."""
    fast, plain = (queue_of(chunks, workers=workers) for _ in range(2))

    assert fast.advance()[0].tolist() == plain._advance_by_deadlines(np.inf)[0].tolist()


@steady
@given(CHUNKS, st.integers(1, 3))
def test_more_workers_never_make_a_chunk_later(chunks, workers):
    """Chunks that are due in the order of their arrivals."""
    delays = queue_of(chunks, workers=workers).advance()[0]
    with_more = queue_of(chunks, workers=workers + 1).advance()[0]

    assert np.all(with_more <= delays)


@steady
@given(CHUNKS, st.integers(1, 3), st.integers(2, 3))
def test_more_replicas_never_make_a_chunk_later(chunks, replicas, factor):
    """Each replica is divided into several, each with a part of its chunks."""
    ordered = sorted(chunks)

    def delays(count):
        found = np.empty(len(ordered))
        for replica in range(min(count, len(ordered))):
            found[replica::count] = queue_of(ordered[replica::count]).advance()[0]
        return found

    assert np.all(delays(replicas * factor) <= delays(replicas))


@steady
@given(st.lists(st.integers(0, 9), min_size=1, max_size=20))
def test_chunks_that_wait_are_taken_as_the_scheduler_takes_sessions(deadlines):
    """The earliest deadline first, equal ones in their order."""
    real = DeadlineQueue()
    for number, deadline in enumerate(deadlines):
        real.put(number, float(deadline))
    expected = [real.take().key for _ in deadlines]
    queue = queue_of([(0.0, 1.0)] * len(deadlines), deadlines=[float(d) for d in deadlines])

    _, latenesses = queue.advance()

    # Every step costs a second, so a lateness has the position of its chunk.
    assert [k + 1 - deadlines[number] for k, number in enumerate(expected)] == latenesses.tolist()


def test_a_chunk_that_is_due_earlier_overtakes_those_that_wait():
    """A step that runs is not interrupted: the second of three chunks ends last."""
    queue = queue_of([(0.0, 1.0), (0.25, 1.0), (0.5, 1.0)], deadlines=[9.0, 8.0, 1.0])

    assert [1.0, 1.5, 2.75] == queue.advance()[0].tolist()


def test_a_step_takes_the_longer_the_more_workers_are_busy():
    """The first of two steps runs alone when it starts, the second one beside it."""
    service = ServiceTimes(
        chunk_seconds=0.5,
        tick_seconds=0.5,
        workers=2,
        is_batching=False,
        by_streams={1: ((0.1,),), 2: ((0.2,),)},
    )
    queue = StepQueue(service)
    queue.add(np.array([0.0, 0.05]), np.array([0.5, 0.55]), np.array([0.2, 0.2]))

    assert queue.advance()[0].tolist() == pytest.approx([0.1, 0.2])


def test_an_engine_with_batching_takes_what_waits_together():
    """One chunk alone, then the three that came meanwhile in one run of the cost of three."""
    queue = StepQueue(batching({1: 0.2, 3: 0.4, 4: 0.5}))
    arrivals = np.array([0.0, 0.1, 0.15, 0.2])
    queue.add(arrivals, arrivals + 0.5, np.full(4, 0.5))

    assert queue.advance()[0].tolist() == pytest.approx([0.2, 0.5, 0.45, 0.4])


def test_a_run_is_no_wider_than_the_backend_declares():
    """Five chunks at once, four of them in the first run."""
    queue = StepQueue(batching({1: 0.2, 4: 0.5}))
    queue.add(np.zeros(5), np.full(5, 0.5), np.full(5, 0.5))

    assert queue.advance()[0].tolist() == pytest.approx([0.5] * 4 + [0.7])


def test_costs_survive_a_report():
    """What is read is what was written, to the microsecond."""
    service = batching({1: 0.2, 3: 0.4})

    assert service == ServiceTimes.from_json(service.to_json())


@given(st.integers(1, 200), st.integers(1, 60))
def test_streams_of_a_run_began_at_different_times(sessions, rounds):
    """However many there are, each half of the run has about half of them."""
    begun = first_chunks(sessions, rounds)

    assert begun.min() >= 0
    assert begun.max() < rounds
    assert abs(np.mean(begun < rounds / 2) - np.mean(np.arange(rounds) < rounds / 2)) <= max(
        1 / rounds, 2 / sessions
    )


def test_a_stream_that_is_longer_repeats_its_second_half():
    """The first chunks of a stream cost less, because its buffer is short."""
    service = ServiceTimes(
        chunk_seconds=0.5,
        tick_seconds=0.5,
        workers=1,
        is_batching=False,
        by_streams={1: ((1.0, 2.0, 3.0, 4.0),)},
    )

    assert [1, 2, 3, 4, 3, 4, 3] == service.costs(np.zeros(7, int), np.arange(7)).tolist()
