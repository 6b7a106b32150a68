"""When audio is due, and which key has the earliest deadline."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_serve.scheduler.deadlines import DeadlineQueue, DueTimes, Load

TIMES = st.floats(0, 1000, allow_nan=False)


def taken(queue):
    """Return the keys that wait, in the order in which they are taken."""
    keys = []
    while (turn := queue.take()) is not None:
        keys.append(turn.key)
    return keys


@given(st.lists(TIMES, max_size=30))
def test_keys_are_taken_by_deadline_and_then_in_the_order_of_their_arrival(deadlines):
    """Sorting is stable."""
    queue = DeadlineQueue()
    for key, deadline in enumerate(deadlines):
        queue.put(key, deadline)

    assert sorted(range(len(deadlines)), key=deadlines.__getitem__) == taken(queue)


def test_a_key_waits_once_and_not_while_it_is_taken():
    """So a session is in one step at a time."""
    queue = DeadlineQueue()

    assert queue.put("a", 2.0)
    assert not queue.put("a", 1.0)
    turn = queue.take()
    assert ("a", 2.0) == (turn.key, turn.deadline)
    assert not queue.put("a", 3.0)
    queue.release("a")
    assert queue.put("a", 3.0)


@given(st.lists(st.tuples(TIMES, st.sampled_from([0.0, 0.5, 2.0]), st.booleans()), max_size=30))
def test_a_lead_moves_a_key_forward_and_leaves_its_deadline(entries):
    """Whether the key was put with it or got it while it waited."""
    queue = DeadlineQueue()
    for key, (deadline, lead, is_late) in enumerate(entries):
        queue.put(key, deadline, lead=0.0 if is_late else lead)
    for key, (_, lead, is_late) in enumerate(entries):
        if is_late:
            queue.advance(key, lead)

    turns = list(iter(queue.take, None))
    order = [entries[turn.key][0] - entries[turn.key][1] for turn in turns]
    assert sorted(order) == order
    assert {key: entry[0] for key, entry in enumerate(entries)} == {
        turn.key: turn.deadline for turn in turns
    }


def test_a_key_keeps_the_longest_lead():
    """A second one moves it no further back, and one that does not wait is not put."""
    queue = DeadlineQueue()
    queue.put("a", 2.0, lead=1.5)
    queue.put("b", 1.0)

    queue.advance("a", 0.5)
    queue.advance("c", 0.5)

    assert ["a", "b"] == taken(queue)


@given(st.lists(st.tuples(TIMES, st.booleans()), max_size=30))
def test_removed_keys_are_never_taken(entries):
    """Wherever they lie, and the others keep their order."""
    queue = DeadlineQueue()
    for key, (deadline, _) in enumerate(entries):
        queue.put(key, deadline)
    for key, (_, is_removed) in enumerate(entries):
        if is_removed:
            queue.remove(key)

    kept = [key for key, (_, is_removed) in enumerate(entries) if not is_removed]
    assert len(kept) == len(queue)
    assert sorted(kept, key=lambda key: entries[key][0]) == taken(queue)


def test_audio_that_comes_in_real_time_is_due_on_its_arrival():
    """A tenth of a second every tenth of a second, and jitter of less than the burst."""
    due = DueTimes(burst_seconds=2.0)
    now = 0.0
    for i in range(1, 100):
        now = max(now, 50.0 + 0.1 * i + (1.5 if i % 30 == 9 else 0.0))
        due.receive(now, 0.1)

        assert now == pytest.approx(due.due(waiting=0.1))


def test_the_oldest_audio_that_waits_decides():
    """The arrival of audio that was taken does not count any more."""
    due = DueTimes(burst_seconds=2.0)
    for second in range(5):
        due.receive(float(second), 1.0)

    assert [0.0, 2.0, 4.0] == [due.due(waiting) for waiting in (5.0, 3.0, 0.5)]


def test_audio_that_is_sent_at_once_is_due_when_it_would_have_been_spoken():
    """A burst of two seconds is due at once; what follows is due in real time."""
    due = DueTimes(burst_seconds=2.0)
    due.receive(100.0, 3600.0)

    assert 100.0 == due.due(waiting=3600.0)
    assert 100.0 == due.due(waiting=3598.0)
    assert 100.0 + 1798.0 == due.due(waiting=1800.0)


def test_a_long_stall_earns_no_more_than_a_burst():
    """After an hour without audio an hour of audio is not due at once."""
    due = DueTimes(burst_seconds=2.0)
    due.receive(0.0, 1.0)
    due.receive(3600.0, 3600.0)

    assert 3600.0 + 98.0 == due.due(waiting=3500.0)


def test_a_command_without_audio_is_due_at_once():
    """A commit or the end waits in no line of its own."""
    due = DueTimes(burst_seconds=2.0)
    due.receive(1.0, 0.5)
    due.receive(7.0, 0.0)

    assert 7.0 == due.due(waiting=0.0)


def test_the_memory_of_arrivals_does_not_grow_with_the_number_of_chunks():
    """Ten thousand chunks of a sample that come at once have one arrival time."""
    due = DueTimes(burst_seconds=2.0)
    for i in range(10_000):
        due.receive(i * 1e-6, 1 / 16_000)

    assert 1 == len(due._arrivals)


def test_lateness_is_measured_over_the_newest_steps():
    """Old steps leave the window; too few steps are no measurement."""
    load = Load(window_seconds=10.0, min_steps=3)
    for now in (0.0, 1.0, 2.0):
        load.add(now, 5.0)

    assert load.p99(2.0) == pytest.approx(5.0)
    for now in (11.0, 12.0, 13.0):
        load.add(now, -0.4)
    assert load.p99(13.0) == pytest.approx(-0.4)
    assert load.p99(22.5) is None
