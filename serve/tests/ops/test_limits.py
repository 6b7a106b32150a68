"""What clients may use, and the sessions that run."""

from __future__ import annotations

import asyncio

import attrs
from hypothesis import given, strategies
import pytest

from wlk_serve.errors import RequestError
from wlk_serve.ops.limits import Limits, Usage
from wlk_serve.ops.running import RunningSessions


@pytest.fixture
def limits():
    """Return limits of audio."""
    return Limits(audio_per_minute=120.0, audio_per_minute_per_key=60.0)


def refusal(usage, key, now, seconds):
    """Return status and retry_after of a use, None where it is allowed."""
    try:
        usage.use(key, now, seconds)
    except RequestError as error:
        assert "rate_limit_exceeded" == error.code
        return error.status, error.retry_after
    return None


def test_a_key_may_use_its_minute_and_no_more(limits):
    """What is used comes back with time."""
    usage = Usage(limits)

    assert None is refusal(usage, "a", 0.0, 60.0)
    assert (429, 1) == refusal(usage, "a", 0.0, 60.0)
    assert None is refusal(usage, "b", 0.0, 60.0)
    assert None is refusal(usage, "a", 60.0, 60.0)


def test_all_keys_share_the_limit_of_all(limits):
    """A third key is refused although it has used nothing."""
    usage = Usage(limits)
    for key in ("a", "b"):
        usage.use(key, 0.0, 60.0)

    assert (429, 1) == refusal(usage, "c", 0.0, 1.0)


def test_one_use_may_exceed_what_is_left_and_is_a_debt(limits):
    """A message is never cut; the client waits until it is paid for."""
    usage = Usage(limits)
    usage.use("a", 0.0, 300.0)

    assert (429, 241) == refusal(usage, "a", 0.0, 0.1)
    assert (429, 1) == refusal(usage, "a", 240.0, 0.1)
    assert None is refusal(usage, "a", 241.0, 0.1)


def test_without_limits_everything_is_allowed():
    """Infinity is no limit."""
    usage = Usage(Limits())

    assert None is refusal(usage, "", 0.0, 1e9)
    assert None is refusal(usage, "", 0.0, 1e9)


@given(
    strategies.lists(
        strategies.tuples(strategies.floats(0, 30), strategies.floats(0.01, 5)), max_size=60
    )
)
def test_no_more_is_used_than_the_budget_and_one_use(uses):
    """At any time, of any length of time; and the time in the answer is enough."""
    usage, now, total = Usage(Limits(audio_per_minute=10.0)), 0.0, 0.0
    for pause, amount in uses:
        now += pause
        refused = refusal(usage, "", now, amount)
        if refused is not None:
            now += refused[1]
            assert None is refusal(usage, "", now, amount)
        total += amount

        assert total <= 10.0 + now / 6 + 5 + 1e-6


@attrs.define(eq=False)
class WaitingSession:
    """A session that ends when it is requested to."""

    ended: asyncio.Event = attrs.field(factory=asyncio.Event)
    is_stubborn: bool = False
    is_closed: bool = False

    def end(self):
        """End."""
        if not self.is_stubborn:
            self.ended.set()

    def close(self):
        """End at once."""
        self.is_closed = True
        self.ended.set()


def test_a_drain_ends_what_still_runs_and_refuses_what_comes():
    """It returns when the last session has delivered its words."""

    async def drained():
        sessions, session = RunningSessions(10), WaitingSession()

        async def run():
            with sessions.entered(session):
                await session.ended.wait()

        task = asyncio.create_task(run())
        await asyncio.sleep(0)
        await sessions.drain(0.0)
        await task
        return sessions

    sessions = asyncio.run(drained())

    assert 0 == len(sessions)
    with pytest.raises(RequestError, match="shuts down"):
        sessions.check()


def test_a_session_that_does_not_deliver_its_words_in_time_is_dropped(monkeypatch, caplog):
    """A line has their number; nothing of them goes on when the server has ended."""
    monkeypatch.setattr("wlk_serve.ops.running._FLUSH_SECONDS", 0.0)

    async def drained():
        sessions, session = RunningSessions(10), WaitingSession(is_stubborn=True)

        async def run():
            with sessions.entered(session), sessions.entered(WaitingSession()):
                await session.ended.wait()

        task = asyncio.create_task(run())
        await asyncio.sleep(0)
        await sessions.drain(0.0)
        await task
        return session.is_closed

    assert asyncio.run(drained())
    assert "2 sessions and requests did not end" in caplog.text
