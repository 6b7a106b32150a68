"""Connections whose clients send too much, malformed data, or no pongs."""

from __future__ import annotations

import asyncio
import logging
from unittest.mock import Mock

import pytest
import uvicorn
from uvicorn.server import ServerState
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from wlk_serve.blocking_work import BlockingWork
from wlk_serve.server import _WebSocket

HELLO = b"GET /v1/realtime HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Api-Key: secret\r\n"
UPGRADE = (
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
KEY = {"x-api-key": "secret"}
needs_model = pytest.mark.slow


@needs_model
def test_text_that_is_no_utf8_closes_with_its_code_and_no_traceback(address, caplog):
    """The socket closes with 1007."""
    with connect(address.replace("http", "ws") + "/realtime", additional_headers=KEY) as client:
        client.recv(30)
        client.socket.sendall(b"\x81\x82\0\0\0\0\xff\xff")
        with pytest.raises(ConnectionClosed) as closed:
            client.recv(30)

    assert closed.value.rcvd.code == 1007
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def run_nothing(coroutine):
    """Close *coroutine* and return a task that never runs."""
    coroutine.close()
    return Mock()


def calls(connection):
    """Return the names of the calls to a connection's transport."""
    return [name for name, *_ in connection.transport.method_calls]


@pytest.fixture
def accepted():
    """Return a function that creates a WebSocket connection without a network."""

    def accepted():
        config = uvicorn.Config(lambda *_: None, ws_per_message_deflate=False)
        config.load()
        loop = Mock(time=Mock(return_value=0.0), create_task=run_nothing)
        connection = _WebSocket(config, ServerState(), {}, loop, joins=BlockingWork(loop.time))
        transport = Mock(get_extra_info=lambda _name: None, is_closing=lambda: False)
        connection.connection_made(transport)
        return connection

    return accepted


@pytest.fixture
def opened(accepted):
    """Return an open WebSocket."""
    connection = accepted()
    connection.data_received(HELLO + UPGRADE)
    asyncio.run(connection.send({"type": "websocket.accept"}))
    return connection


@pytest.mark.parametrize(
    "head",
    [b"X: 1\r\n" * 129, b"X: " + b"1" * 8192 + b"\r\n", b"Content-Length: 1\r\n"],
    ids=["many headers", "long line", "body"],
)
def test_a_handshake_that_the_parser_refuses_is_answered_and_closed(accepted, head):
    """Websockets parses the request a second time, with narrower limits than uvicorn's HTTP."""
    connection = accepted()
    connection.data_received(HELLO + head + UPGRADE)

    assert connection.transport.write.call_args.args[0].startswith(b"HTTP/1.1 400 ")
    assert "close" in calls(connection)


def test_a_server_shuts_down_while_a_client_closes(opened):
    """With TLS, or while data is unsent, a connection outlives its close frames."""
    opened.data_received(b"\x88\x82\0\0\0\0\x03\xe8")
    opened.transport.is_closing = lambda: True
    sent = opened.transport.write.call_count
    opened.shutdown()

    assert calls(opened).count("close") == 1
    assert opened.transport.write.call_count == sent


def test_a_client_that_reads_nothing_is_not_read(opened):
    """Pongs for it would fill the memory, and its pings do not count as signs of life."""
    opened.data_received(b"\x89\x80\0\0\0\0")
    opened.pause_writing()
    paused = calls(opened)
    opened.keepalive_timeout()

    assert paused[-1] == "pause_reading"
    assert "close" in calls(opened)


def test_a_client_that_reads_again_is_read_again(opened):
    """Reading does not resume while one of its messages waits."""
    for waits in (True, False):
        opened.pause_writing()
        opened.read_paused = waits
        opened.resume_writing()

        assert (calls(opened)[-1] == "resume_reading") is not waits


def test_a_client_of_small_frames_is_read_in_small_parts(opened):
    """A read must not block others for long; parts of large frames can be larger."""
    sizes = []
    for seconds in [0.0] * 9 + [0.01] * 9:
        opened.loop.time = Mock(side_effect=[0.0, seconds])
        opened.get_buffer(-1)[:6] = b"\x8a\x80\0\0\0\0"
        opened.buffer_updated(6)
        sizes.append(len(opened.get_buffer(-1)))

    assert sizes[:2] == [128, 256]
    assert (sizes[8], sizes[9], sizes[-1]) == (4096, 2048, 64)


def test_fragments_take_the_memory_of_their_bytes(opened):
    """An object per fragment would take many times more, and empty ones would pass every limit."""
    opened.data_received(b"\x01\x82\0\0\0\0ab" + b"\x00\x82\0\0\0\0cd" * 3 + b"\0\x80\0\0\0\0" * 9)
    waiting = [bytes(part) for part in opened.frames]
    opened.data_received(b"\x80\x81\0\0\0\0e")

    assert waiting == [b"abcdcdcd"]
    connected, received = opened.queue.get_nowait(), opened.queue.get_nowait()
    assert connected["type"] == "websocket.connect"
    assert received == {"type": "websocket.receive", "text": "abcdcdcde"}


@pytest.mark.parametrize(("waits", "sends"), [(True, False), (False, True), (False, False)])
def test_a_client_needs_to_answer_no_ping_while_its_audio_waits_or_it_sends(opened, waits, sends):
    """Its pong waits behind audio that is read only as fast as the model decodes it."""
    opened.send_keepalive_ping()
    opened.read_paused = waits
    if sends:
        opened.data_received(b"\x8a\x80\0\0\0\0")
    opened.keepalive_timeout()

    lives = waits or sends
    assert ("close" not in calls(opened)) is lives
    next_timer = opened.loop.call_later.call_args.args[1]
    assert (opened.send_keepalive_ping == next_timer) is lives


@pytest.fixture
def held(opened):
    """Return a WebSocket with a waiting part of a large message, and the part."""
    size = (1 << 20) + 3
    opened.data_received(b"\x82\xff" + size.to_bytes(8) + bytes(4) + bytes(size - 2))
    with opened._joins.measured():
        opened.loop.time.return_value += 0.01
    opened.loop.call_later = Mock()
    opened.buffer_updated(1)
    return opened, opened.loop.call_later.call_args.args[2]


def test_a_large_message_is_joined_when_others_had_their_turn(held):
    """Joining 20 MiB blocks everyone else, and another message was joined a moment ago."""
    opened, part = held
    seconds, take, _ = opened.loop.call_later.call_args.args
    opened.resume_writing()
    is_held = calls(opened)[-1] == "pause_reading"
    opened.keepalive_timeout()  # a client need not answer a ping while it is not read
    opened.loop.time.return_value += seconds
    take(part)
    is_read_again = calls(opened)[-1] == "resume_reading"
    opened.buffer_updated(1)

    assert (seconds, is_held, is_read_again) == (pytest.approx(0.02), True, True)
    assert "close" not in calls(opened)
    assert len([opened.queue.get_nowait() for _ in range(2)][1]["bytes"]) == (1 << 20) + 3
