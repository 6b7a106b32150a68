"""Running sessions, and how a drain ends them."""

from __future__ import annotations

import asyncio

import attrs
import pytest

from wlk_serve.admission import Limits
from wlk_serve.errors import RequestError
from wlk_serve.ops.running import RunningSessions


@attrs.define(eq=False)
class WaitingSession:
    """A session that waits for a request to end."""

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
    """The drain returns after the last session has delivered its words."""

    async def drained():
        sessions, session = RunningSessions(Limits()), WaitingSession()

        async def run():
            with sessions.entered(session):
                await session.ended.wait()

        task = asyncio.create_task(run())
        await asyncio.sleep(0)
        await sessions.drain(0.0)
        await task
        return sessions

    sessions = asyncio.run(drained())

    assert len(sessions) == 0
    with pytest.raises(RequestError, match="is shutting down"):
        sessions.check()


def test_a_session_that_does_not_deliver_its_words_in_time_is_dropped(monkeypatch, caplog):
    """The log has the number of dropped sessions; none of them outlives the server."""
    monkeypatch.setattr("wlk_serve.ops.running._FLUSH_SECONDS", 0.0)

    async def drained():
        sessions, session = RunningSessions(Limits()), WaitingSession(is_stubborn=True)

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
