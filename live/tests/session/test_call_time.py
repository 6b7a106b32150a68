"""The time that calls of a plugin may take, and what becomes of a call that takes longer."""

from __future__ import annotations

import threading

import pytest

from wlk_live.session import call_time
from wlk_live.session.call_time import CallTime


class Clock:
    """A clock that moves only when it is told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        """Return the time."""
        return self.now

    def work(self, seconds):
        """Return a call that takes that long."""
        return lambda: setattr(self, "now", self.now + seconds)


@pytest.fixture
def hang():
    """Return a call that lasts until the test is over."""
    is_over = threading.Event()
    yield is_over.wait
    is_over.set()
    for thread in [*call_time._HUNG]:
        thread._thread.join()


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Let a call that hangs be given up after a hundredth of a second."""
    monkeypatch.setattr(call_time, "_SECONDS_PER_TOKEN", 0.01)


def test_a_call_raises_what_the_plugin_raises():
    """In the thread of the caller; the next call is made as before."""
    time, answers = CallTime(), []
    with pytest.raises(ZeroDivisionError):
        time.call(lambda: 1 / 0, tokens=1)
    time.call(lambda: answers.append(1), tokens=1)

    assert answers == [1]


def test_quick_calls_share_one_thread():
    """A thread for each would take longer than the call."""
    threads = set()
    for _ in range(100):
        CallTime().call(lambda: threads.add(threading.get_ident()), tokens=1)

    assert len(threads) == 1


def test_a_call_that_hangs_is_left_behind(hang):
    """The caller goes on, and so do calls of other plugins."""
    time, answers = CallTime(seconds=0.0), []
    with pytest.raises(TimeoutError, match="expected an answer within 10 s"):
        time.call(hang, tokens=1)
    CallTime().call(lambda: answers.append(1), tokens=1)

    assert answers == [1]


def test_calls_that_are_slower_than_speech_use_up_their_time(monkeypatch):
    """Each takes less than the longest that one may take."""
    monkeypatch.setattr(call_time, "_SLICE_SECONDS", 10.0)
    clock = Clock()
    time = CallTime(clock)
    time.call(clock.work(6.0), tokens=1)
    time.call(clock.work(6.0), tokens=1)
    with pytest.raises(TimeoutError):
        time.call(clock.work(6.0), tokens=1)


def test_the_time_of_tokens_is_kept_for_later_calls(monkeypatch):
    """Up to ten seconds: a filter may take longer at the end of a sentence."""
    monkeypatch.setattr(call_time, "_SECONDS_PER_TOKEN", 0.3)
    monkeypatch.setattr(call_time, "_SLICE_SECONDS", 10.0)
    clock = Clock()
    time = CallTime(clock)
    for _ in range(20):
        time.call(clock.work(5.9), tokens=20)

    assert time._seconds == pytest.approx(10.0)


def test_a_process_that_was_frozen_has_not_used_the_time():
    """The clock may have run for hours while nothing did."""
    clock = Clock()
    time = CallTime(clock)
    for _ in range(9):
        time.call(clock.work(3600.0), tokens=0)

    assert time._seconds == pytest.approx(1.0)


def test_no_more_than_eight_calls_may_hang(hang):
    """Each may keep a core busy; once they return, there is room again."""
    for _ in range(8):
        with pytest.raises(TimeoutError):
            CallTime(seconds=0.0).call(hang, tokens=1)
    with pytest.raises(TimeoutError, match="8 calls of plugins have not returned"):
        CallTime().call(lambda: None, tokens=1)
