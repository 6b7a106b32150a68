"""Protocols that raise what no client caused."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from wlk_serve.admission import Limits
from wlk_serve.ops.running import RunningSessions
from wlk_serve.sessions.sockets import serve_session

from .conftest import APPEND
from .test_socket import Socket

ERRORS = [ZeroDivisionError("a defect"), SystemExit(3)]


def raising(error):
    """Return a function that raises *error*."""

    def call(*_arguments):
        raise error

    return call


@pytest.mark.parametrize("error", ERRORS, ids=["an error", "an exit"])
@pytest.mark.parametrize("method", ["begin", "receive", "end"])
def test_a_protocol_that_raises_ends_its_session_only(open_session, caplog, method, error):
    """Its place is free again, its socket closes with 1011, and the log has the cause."""
    ends = []

    async def run():
        session = open_session(on_over=lambda: ends.append("over"))
        setattr(session._protocol, method, raising(error))
        socket = Socket(sends=10, messages=1, text=APPEND)
        serving = asyncio.create_task(serve_session(socket, session, session.begin()))
        await asyncio.sleep(0)
        if method == "end":
            session.end()
        await serving
        session.close()
        return session, socket

    session, socket = asyncio.run(run())

    assert (ends, socket.close_code) == (["over"], 1011)
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [error]
    text, _ = session.figures.metrics.render()
    assert b'wlk_errors_total{code="internal_error"} 1.0' in text


def test_an_end_that_raises_leaves_the_other_sessions_their_ends(caplog):
    """A shutdown ends each session once, in any order."""
    ended = []

    class Session:
        def __init__(self, name):
            self._name = name

        def end(self):
            if self._name == "broken":
                raise ZeroDivisionError
            ended.append(self._name)
            entered.pop_all().close()

        def close(self):
            raise AssertionError

    async def run():
        with ExitStack() as all_entered:
            for name in ("broken", "a"):
                all_entered.enter_context(sessions.entered(Session(name)))
            entered.push(all_entered.pop_all())
            await sessions.drain(0)

    sessions, entered = RunningSessions(Limits()), ExitStack()
    asyncio.run(run())

    assert ended == ["a"]
    assert "was not ended properly" in caplog.text


def test_an_error_that_a_protocol_raises_is_counted(open_session):
    """Errors of every protocol are counted, whatever the shape of their messages."""

    async def run():
        session = open_session()
        session._protocol.refuse = lambda error: [{"warning": str(error)}]
        await session.receive(session.begin(), "{")
        session.close()
        return session.figures.metrics.render()[0]

    assert b'wlk_errors_total{code="invalid_json"} 1.0' in asyncio.run(run())
