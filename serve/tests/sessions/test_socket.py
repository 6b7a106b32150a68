"""A socket whose client reads too slowly, or leaves."""

from __future__ import annotations

import asyncio
import math

import attrs
import pytest

from wlk_serve.sessions.sockets import serve_session

from .conftest import APPEND, turns

WAIT = 60.0  # seconds after which a test that waits has failed


@attrs.define(eq=False)
class Socket:
    """
    A socket of a client that takes `sends` messages and sends `messages` of its own.

    It then raises `error`, or waits for ever.
    """

    sends: float
    messages: float
    text: str = "{}"  # which is answered by an error
    error: Exception | None = None
    close_code: int | None = None
    taken: list = attrs.field(factory=list)

    async def receive(self):
        """Return a message, or wait for ever."""
        await asyncio.sleep(0)
        if self.messages <= 0:
            await asyncio.Event().wait()
        self.messages -= 1
        return {"type": "websocket.receive", "text": self.text}

    async def send_text(self, text):
        """Take a message, or take none any more."""
        if len(self.taken) >= self.sends:
            if self.error is not None:
                raise self.error
            await asyncio.Event().wait()
        self.taken.append(text)

    async def close(self, code):
        """Keep the code."""
        self.close_code = code


@pytest.fixture
def run(open_session, monkeypatch):
    """Return a function that serves a session over a socket until it is closed."""
    monkeypatch.setattr("wlk_serve.sessions.sockets._SEND_SECONDS", 0.2)
    ends = []

    async def serve(socket, **options):
        session = open_session(
            on_over=lambda: ends.append("over"),
            on_closed=lambda: ends.append("closed"),
            **options,
        )
        await serve_session(socket, session, session.begin())
        waits = ends == []
        session.close()
        return waits

    def run(socket, **options):
        waits = asyncio.run(serve(socket, **options))
        assert ["over", "closed"] == ends
        return waits

    return run


@pytest.mark.parametrize(
    ("messages", "seconds"), [(10, 0.2), (math.inf, 2.0)], ids=["takes nothing", "causes too much"]
)
def test_a_client_that_is_too_slow_is_closed(run, monkeypatch, caplog, messages, seconds):
    """Its messages wait for a time and in a number that are bounded; the log has the code."""
    monkeypatch.setattr("wlk_serve.sessions.sockets._SEND_SECONDS", seconds)
    socket = Socket(sends=1, messages=messages)

    with caplog.at_level("INFO", "wlk_serve"):
        assert not run(socket)
    assert (1013, 1) == (socket.close_code, len(socket.taken))
    assert ["end=1013"] == [record.getMessage().split()[-1] for record in caplog.records]


def test_a_session_with_a_token_waits_after_its_client_was_too_slow(run):
    """It can be resumed, because nothing of it was lost."""
    assert run(Socket(sends=0, messages=1), is_resumable=True)


@pytest.mark.parametrize("error", [RuntimeError("closed"), ConnectionResetError()])
def test_a_client_that_left_while_it_was_sent_a_message_may_come_back(run, caplog, error):
    """Starlette and uvicorn raise RuntimeError for it, which is no defect of the server."""
    socket = Socket(sends=0, messages=0, error=error)

    assert run(socket, is_resumable=True)
    assert (None, []) == (socket.close_code, [r for r in caplog.records if r.levelname == "ERROR"])


def test_a_shutdown_does_not_wait_for_a_stream_that_is_being_opened(open_session, opener):
    """Its socket is closed for a restart, and the opening is cancelled."""

    async def run():
        client = Socket(sends=math.inf, messages=1, text=APPEND)
        session = open_session(open_stream=opener.open_stream)
        serving = asyncio.create_task(serve_session(client, session, session.begin()))
        await turns()
        session.end()
        async with asyncio.timeout(WAIT):
            await serving
        return client.close_code, opener.begun[0].cancelled()

    assert (1012, True) == asyncio.run(run())
