from __future__ import annotations

import asyncio

import attrs
import pytest

from wlk_serve.errors import RequestError
from wlk_serve.sessions import Sessions


@attrs.define(eq=False)
class WaitingSession:
    """A session that ends when it is requested to."""

    ended: asyncio.Event = attrs.field(factory=asyncio.Event)

    def end(self):
        """End."""
        self.ended.set()


def test_more_sessions_than_the_limit_are_refused_until_one_ends():
    """The refusal has the time of the next attempt."""
    sessions = Sessions(1)
    with sessions.entered(), pytest.raises(RequestError) as caught, sessions.entered():
        pass

    assert (503, "server_overloaded", 5) == (
        caught.value.status,
        caught.value.code,
        caught.value.retry_after,
    )
    sessions.check()


def test_a_drain_ends_what_still_runs_and_refuses_what_comes():
    """It returns when the last session has delivered its words."""

    async def drained():
        sessions, session = Sessions(10), WaitingSession()

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
