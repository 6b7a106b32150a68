"""Connections that ask for nothing, ask too much, or are too many."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, suppress
import errno
import http.client
import json
import logging
import socket
import struct
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
import uvicorn
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.server import ServerState
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from wlk_serve.http.connections import (
    RealtimeConnection,
    backlog_of,
    log_lack_of_files,
    most_connections,
)

HELLO = b"GET /v1/realtime HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Api-Key: secret\r\n"
UPGRADE = (
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
POST = b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Api-Key: secret\r\n"
CHUNKED = b"Content-Type: multipart/form-data; boundary=x\r\nTransfer-Encoding: chunked\r\n\r\n"
KEY = {"x-api-key": "secret"}
needs_model = pytest.mark.slow


@pytest.fixture
def exchange(address):
    """Return a function that sends bytes and returns all bytes that come back."""

    def exchange(*parts):
        url = urlsplit(address)
        with socket.create_connection((url.hostname, url.port), 60) as client:
            for part in parts:
                client.sendall(part)
            found = b""
            while data := client.recv(65_536):
                found += data
        return found

    return exchange


def refusal(answer):
    """Return status and code of an answer with an error object."""
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]["code"]


@needs_model
@pytest.mark.parametrize(
    "data",
    [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"no request\r\n\r\n", POST + CHUNKED + b"z"],
    ids=["tls", "text", "a-broken-chunk"],
)
def test_bytes_that_are_no_request_get_an_error_object(exchange, data):
    """A client that speaks TLS to the plain port is one of them."""
    assert (400, "invalid_request") == refusal(exchange(data + b"\r\n" * 10))


@needs_model
def test_a_request_that_does_not_come_ends_the_connection(exchange, monkeypatch):
    """Neither silence nor half of the headers keeps a connection open."""
    monkeypatch.setattr("wlk_serve.http.connections._REQUEST_SECONDS", 0.2)

    assert b"" == exchange()
    assert (408, "timeout") == refusal(exchange(HELLO))


@needs_model
def test_a_body_that_goes_on_after_its_refusal_ends_with_the_connection(address, monkeypatch):
    """The client reads the refusal; then it is not read for ever."""
    monkeypatch.setattr("wlk_serve.http.connections._REQUEST_SECONDS", 0.2)
    url = urlsplit(address)
    with socket.create_connection((url.hostname, url.port), 60) as client:
        client.sendall(POST.replace(b"secret", b"wrong") + CHUNKED)
        answer = b""
        while not answer.endswith(b"}"):
            answer += client.recv(65_536)
        with pytest.raises(OSError, match=r"Broken pipe|reset|aborted"):
            while True:
                client.sendall(b"400\r\n" + bytes(1024) + b"\r\n")

    assert (401, "invalid_api_key") == refusal(answer)


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


@needs_model
def test_more_connections_than_the_limit_are_refused(digits, serve):
    """Both kinds get a status, and those that are open go on."""
    with serve(digits) as (address, server), ExitStack() as stack:
        server.config.limit_concurrency = 3
        url = address.replace("http", "ws") + "/realtime"
        client = stack.enter_context(connect(url, additional_headers=KEY))
        client.recv(30)
        parts = urlsplit(address)
        idle = socket.create_connection((parts.hostname, parts.port), 60)
        with pytest.raises(InvalidStatus) as refused, connect(url, additional_headers=KEY):
            pass
        connection = http.client.HTTPConnection(parts.netloc, timeout=60)
        connection.request("GET", "/livez")
        answer = connection.getresponse()
        code = json.loads(answer.read())["error"]["code"]
        connection.close()
        idle.close()
        client.send("{}")
        error = json.loads(client.recv(30))
        client.close()

    assert 503 == refused.value.response.status_code
    assert (503, "server_overloaded", "close") == (
        answer.status,
        code,
        answer.getheader("connection"),
    )
    assert "invalid_event" == error["error"]["code"]


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
    connection = RealtimeConnection(config, ServerState(), {}, Loop())
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
    """Even if it never reads what was sent."""
    opened.send_keepalive_ping()
    opened.keepalive_timeout()

    assert "close" in opened.transport.names()
    opened.loop.timers[-1][1]()
    assert "abort" == opened.transport.names()[-1]


def test_a_close_frame_does_not_wait_for_a_slow_reader(opened):
    """It is sent after what waits, and the client has a time to read all of it."""
    opened.pause_writing()
    asyncio.run(opened.send({"type": "websocket.close", "code": 1013}))

    assert ("write", struct.pack("!BBH", 0x88, 2, 1013)) in opened.transport.calls
    assert "write_eof" == opened.transport.names()[-1]
    seconds, end = opened.loop.timers[-1]
    end()
    assert (300.0, "abort") == (seconds, opened.transport.names()[-1])


def test_nothing_is_written_to_a_socket_that_is_lost(opened):
    """Asyncio would write a line for each attempt."""
    opened.transport.is_closing = lambda: True
    before = list(opened.transport.calls)
    with pytest.raises(ClientDisconnected):
        asyncio.run(opened.send({"type": "websocket.send", "text": "{}"}))

    assert before == opened.transport.calls


@pytest.mark.parametrize("files", [128, 1024, 65_536])
def test_connections_of_a_moment_leave_files_for_everything_else(monkeypatch, files):
    """Those that are answered, a quarter more, and twice those that are accepted at a time."""
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (files, files))
    connections = most_connections()

    assert files // 2 == connections
    assert connections + connections // 4 + 2 * backlog_of(connections) <= files * 7 // 8


def test_a_lack_of_files_is_a_line_in_ten_seconds(caplog):
    """However many connects wait; any other error is written as before."""
    seen = []
    loop = Loop()
    loop.default_exception_handler = seen.append
    loop.set_exception_handler = lambda handler: setattr(loop, "handle", handler)
    log_lack_of_files(loop)
    for _ in range(20):
        loop.handle(loop, {"exception": OSError(errno.EMFILE, "too many")})
        loop.now += 1.0
    loop.handle(loop, {"exception": OSError(errno.EPIPE, "left")})

    assert 2 == len(caplog.records)
    assert "LimitNOFILE" in caplog.text
    assert 1 == len(seen)
