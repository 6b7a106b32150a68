"""WebSockets whose client sends too much, nonsense, or no pongs."""

from __future__ import annotations

import asyncio
from contextlib import suppress
import logging
from types import SimpleNamespace

import pytest
import uvicorn
from uvicorn.server import ServerState
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from wlk_serve.http.server import _WebSocket

HELLO = b"GET /v1/realtime HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Api-Key: secret\r\n"
UPGRADE = (
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
KEY = {"x-api-key": "secret"}
needs_model = pytest.mark.slow


@needs_model
@pytest.mark.parametrize("size", [(21 << 20) + 1, 32 << 20])
def test_a_client_reads_why_its_message_was_too_large(address, size):
    """Also when it sends all of it before it reads anything."""
    with connect(address.replace("http", "ws") + "/realtime", additional_headers=KEY) as client:
        with suppress(ConnectionClosed):
            client.send("x" * size)
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                client.recv(60)

    assert 1009 == closed.value.rcvd.code
    assert "exceeds limit of 22020096 bytes" in closed.value.rcvd.reason


@needs_model
def test_text_that_is_no_utf8_closes_with_its_code_and_no_traceback(address, caplog):
    """The code is 1007."""
    with connect(address.replace("http", "ws") + "/realtime", additional_headers=KEY) as client:
        client.recv(30)
        client.socket.sendall(b"\x81\x82\0\0\0\0\xff\xff")
        with pytest.raises(ConnectionClosed) as closed:
            client.recv(30)

    assert 1007 == closed.value.rcvd.code
    assert [] == [record for record in caplog.records if record.levelno >= logging.ERROR]


class Transport:
    """A transport that keeps what happened to it."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *arguments: self.calls.append((name, *arguments))

    def get_extra_info(self, _name):
        """Return nothing."""

    def is_closing(self):
        """Return false."""
        return False

    def can_write_eof(self):
        """Return true."""
        return True

    def names(self):
        """Return what was called."""
        return [name for name, *_ in self.calls]


class Loop:
    """A loop whose timers do not run."""

    def __init__(self):
        self.timers = []
        self.now = 0.0

    def time(self):
        """Return the time."""
        return self.now

    def call_later(self, seconds, call, *_):
        """Keep the timer."""
        self.timers.append((seconds, call))
        return SimpleNamespace(cancel=lambda: None)

    def create_task(self, coroutine):
        """Run nothing."""
        coroutine.close()
        return asyncio.Future(loop=SimpleNamespace(get_debug=lambda: False))


@pytest.fixture
def opened():
    """Return a WebSocket that is open, without a network."""
    config = uvicorn.Config(lambda *_: None, ws_per_message_deflate=False)
    config.load()
    connection = _WebSocket(config, ServerState(), {}, Loop())
    connection.connection_made(Transport())
    connection.data_received(HELLO + UPGRADE)
    asyncio.run(connection.send({"type": "websocket.accept"}))
    return connection


def test_a_client_whose_audio_waits_needs_to_answer_no_ping(opened):
    """Its answer is after audio that is not read, because the model is slower than the client."""
    opened.send_keepalive_ping()
    opened.read_paused = True
    opened.keepalive_timeout()

    assert "close" not in opened.transport.names()
    assert opened.send_keepalive_ping == opened.loop.timers[-1][1]


def test_a_client_that_sends_needs_to_answer_no_ping(opened):
    """Any byte is a sign of life."""
    opened.send_keepalive_ping()
    opened.data_received(b"\x8a\x80\0\0\0\0")
    opened.keepalive_timeout()

    assert "close" not in opened.transport.names()


def test_a_client_that_answers_no_ping_is_closed_in_the_end(opened):
    """Nothing has come since the ping."""
    opened.send_keepalive_ping()
    opened.keepalive_timeout()

    assert "close" in opened.transport.names()
