"""How long a session waits for a client that lost its socket."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from wlk_serve.sessions.messages import RESUME_SECONDS

from .conftest import APPEND

THIRD = RESUME_SECONDS / 3
LOST = 1006  # the close code of a socket without a close frame


class Clock:
    """The timers of an event loop, on a clock that the test moves."""

    def __init__(self):
        self.now = 0.0
        self.timers = []

    def time(self):
        """Return the time in seconds."""
        return self.now

    def call_later(self, delay, function):
        """Call *function* after *delay* seconds."""
        timer = SimpleNamespace(time=self.now + delay, function=function)
        timer.when = lambda: timer.time
        timer.cancel = lambda: self.timers.remove(timer) if timer in self.timers else None
        self.timers.append(timer)
        return timer

    def advance(self, seconds):
        """Let *seconds* pass."""
        end = self.now + seconds
        while due := [timer for timer in self.timers if timer.time <= end]:
            timer = min(due, key=lambda timer: timer.time)
            self.now = max(self.now, timer.time)
            timer.cancel()
            timer.function()
        self.now = end


@pytest.fixture
def clock(monkeypatch):
    """Return the clock of all sessions."""
    clock = Clock()
    monkeypatch.setattr("wlk_serve.sessions.session.asyncio.get_running_loop", lambda: clock)
    return clock


@pytest.fixture
def closed():
    """Return a list that receives the time at which the session is closed."""
    return []


@pytest.fixture
def session(open_session, clock, closed):
    """Return a resumable session."""
    return open_session(is_resumable=True, on_closed=lambda: closed.append(clock.now))


def test_a_session_that_is_over_waits_once(session, clock, closed):
    """A client that resumes it again and again is refused in the end, and opens a new session."""
    queue = session.begin()
    session.end()
    session.detach(queue, None)
    for _ in range(2):
        clock.advance(THIRD)
        session.detach(session.resume(0), None)
    clock.advance(THIRD)

    clock.advance(1.0)  # grace for a client that a frozen process could not read

    assert closed == [RESUME_SECONDS + 1]
    assert clock.timers == []


def test_a_process_that_was_frozen_reads_who_came_back_before_it_forgets(session, clock, closed):
    """After a freeze, overdue timers run before waiting sockets are read."""
    session.detach(session.begin(), LOST)
    clock.now += RESUME_SECONDS + 6
    clock.advance(0)
    session.resume(0)
    clock.advance(RESUME_SECONDS)

    assert closed == []


def test_a_process_that_was_frozen_reads_what_came_before_it_calls_a_client_idle(session, clock):
    """A client that stays idle after the freeze is closed without an error event."""
    queue = session.begin()
    clock.now += 1000
    ended = []
    for seconds in (0.5, 0.5):
        clock.advance(seconds)
        ended.append(session.audio.is_ended)

    assert ended == [False, True]
    assert [kind for kind, _ in [*queue._first, *queue._messages]] == ["session.created", "wlk.cut"]
    assert session.close_reason == "idle for 600 s"


def test_a_client_that_only_reads_is_never_idle(open_session, clock):
    """Nothing may be said for an hour."""
    session = open_session(opening={"only_reads": True})
    session.begin()
    clock.advance(3600)

    assert not session.audio.is_ended


def test_the_last_words_for_other_readers_have_a_time_limit(
    open_session, streams, clock, closed, caplog
):
    """Otherwise a stream that never ends would keep the session after its client has left."""
    session = open_session(
        opening={"has_readers": True}, on_closed=lambda: closed.append(clock.now)
    )
    queue = session.begin()
    asyncio.run(session.receive(queue, APPEND))
    session.detach(queue, LOST)
    session.close_unless_waiting()
    clock.advance(899)
    waiting = (closed == [], streams[0].calls[-1])
    clock.advance(1)

    assert (waiting, closed) == ((True, ("end_audio",)), [900])
    assert "not decoded in 900 s" in caplog.text


def test_a_session_that_goes_on_waits_after_each_loss(session, clock, closed):
    """Each wait is as long as the first one."""
    session.detach(session.begin(), LOST)
    for _ in range(4):
        clock.advance(2 * THIRD)
        session.detach(session.resume(0), LOST)
    clock.advance(2 * THIRD)
    while_waiting = list(closed)
    clock.advance(THIRD + 1)

    assert while_waiting == []
    assert closed == [clock.now]
