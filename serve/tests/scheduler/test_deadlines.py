"""When audio is due."""

from __future__ import annotations

from wlk_serve.scheduler import DueTimes


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
