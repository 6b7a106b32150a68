"""Protocols that other distributions add without changes to wlk-serve."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
import json
from pathlib import Path
import re
import socket
from types import ModuleType, SimpleNamespace
from urllib.parse import urlsplit

import attrs
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from wlk_conformance.testing import CodedToken, encode, script_words
from wlk_core.registry import Registry
from wlk_serve import protocols
from wlk_serve.http.admission import Limits
from wlk_serve.http.server import bound_sockets
from wlk_serve.protocols import TcpRoute, installed_routes
from wlk_serve.sessions import sockets

ROOT = Path(__file__).resolve().parents[3]
TOKENS = [CodedToken(number, 4 * number, 3) for number in range(1, 9)]
SAMPLES = encode(TOKENS, cells=40)
AUDIO = SAMPLES.tobytes()
WAIT = 60.0  # seconds after which a test that waits has failed


@pytest.fixture(scope="module")
def hello():
    """Return the example module in docs/protocols.md."""
    page = (ROOT / "docs" / "protocols.md").read_text(encoding="utf-8")
    code, _ = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    module = ModuleType("wlk_protocol_hello")
    exec(code, module.__dict__)  # noqa: S102 -- the project's own page
    return module


@pytest.fixture(scope="module")
def open_session(hello):
    """Return the example's `open`, changed for the coded audio of the scripted backend."""

    def open_session(handshake):
        opening = hello.open_session(handshake)
        settings = attrs.evolve(opening.settings, encoding="f32le", leaves_out_pauses=False)
        return attrs.evolve(opening, settings=settings)

    return open_session


async def read_message(reader):
    """Read a message: a line with its length, then its bytes; length 0 ends the audio."""
    line = await reader.readline()
    if not line:
        return None
    data = await reader.readexactly(int(line))
    return data or "end"


@pytest.fixture(scope="module")
def routes(hello, open_session):
    """Return the example's protocol over a WebSocket and over TCP."""
    (route,) = hello.wlk_protocols()
    return [
        attrs.evolve(route, open=open_session),
        TcpRoute(
            protocol="plain",
            open=lambda card: open_session(
                SimpleNamespace(card=card, query={"model": None, "language": ""})
            ),
            read=read_message,
            refuse=lambda error: {"error": error.record()},
        ),
    ]


@pytest.fixture(scope="module")
def served(serve):
    """Return a context manager that yields a server's netloc, its TCP address and the server."""

    @contextmanager
    def served(routes, limits=None):
        registry = Registry()
        tcp = [route.protocol for route in routes if isinstance(route, TcpRoute)]
        with (
            registry.load_backend("scripted") as backend,
            bound_sockets("127.0.0.1", 0) as listeners,
            serve(
                (backend, registry.spec("scripted")),
                limits,
                name=None,
                routes=routes,
                listeners=dict.fromkeys(tcp, listeners),
            ) as (address, server),
        ):
            yield urlsplit(address).netloc, listeners[0].getsockname(), server

    return served


@pytest.fixture(scope="module")
def server(served, routes):
    """Return the addresses of a server shared by all tests of the module."""
    with served(routes) as addresses:
        yield addresses


def words_of(messages):
    """Return the joined texts among *messages*."""
    return "".join(message.get("text", "") for message in messages).split()


@pytest.fixture(scope="module")
def expected():
    """Return the words in the audio."""
    with Registry().load_backend("scripted") as backend:
        return [word.text.strip() for word in script_words(TOKENS, backend.vocabulary)]


@pytest.mark.parametrize("size", [200, 3200, len(AUDIO)])
def test_a_protocol_of_another_distribution_gets_every_word(server, expected, size):
    """The documented example works with audio in messages of any size."""
    headers = {"authorization": "Token secret"}
    with connect(f"ws://{server[0]}/hello", additional_headers=headers) as client:
        first = json.loads(client.recv(WAIT))
        for start in range(0, len(AUDIO), size):
            client.send(AUDIO[start : start + size])
        client.send("end")
        messages = [json.loads(text) for text in client]

    assert {"hello": "send audio"} == first
    assert expected == words_of(messages)
    assert 8 == len(expected)
    assert "utterance_end" in messages[-1]
    assert 1000 == client.close_code


def test_a_protocol_without_http_gets_every_word(server, expected):
    """The server closes the connection after the last word."""
    with socket.create_connection(server[1], timeout=WAIT) as client:
        for start in range(0, len(AUDIO), 3200):
            part = AUDIO[start : start + 3200]
            client.sendall(b"%d\n" % len(part) + part)
        client.sendall(b"0\n")
        messages = [json.loads(line) for line in client.makefile()]

    assert {"hello": "send audio"} == messages[0]
    assert expected == words_of(messages)


@pytest.mark.parametrize("data", [b"no length\n", b"5\nab", b"1" * 70_000])
def test_a_message_that_is_none_ends_its_connection(server, data):
    """So do half a message and an endless line; the server continues."""
    with socket.create_connection(server[1], timeout=WAIT) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        messages = client.makefile().read().splitlines()

    assert 1 == len(messages)


def test_a_route_says_where_its_clients_put_keys_and_how_they_are_refused(
    hello, served, open_session
):
    """Clients of other protocols use neither OpenAI's headers nor its errors."""
    (route,) = hello.wlk_protocols()
    route = attrs.evolve(
        route,
        open=open_session,
        keys=lambda connection: [connection.query_params.get("key", "")],
        refuse=lambda error: protocols.CloseSocket(code=4401, message={"refused": str(error)}),
    )
    with served([route]) as (netloc, *_):
        with connect(f"ws://{netloc}/hello?key=secret") as client:
            assert "hello" in json.loads(client.recv(WAIT))
        with connect(f"ws://{netloc}/hello") as client:
            message = json.loads(client.recv(WAIT))
            with pytest.raises(ConnectionClosed):
                client.recv(WAIT)

    assert ["refused"] == [*message]
    assert 4401 == client.close_code


def test_a_full_server_refuses_in_the_shape_of_each_protocol(served, routes):
    """A refused client takes no place."""
    with (
        served(routes, Limits(max_sessions=1)) as (netloc, plain, _),
        connect(f"ws://{netloc}/hello", additional_headers={"x-api-key": "secret"}) as client,
    ):
        client.recv(WAIT)
        with socket.create_connection(plain, timeout=WAIT) as second:
            (message,) = [json.loads(line) for line in second.makefile()]
        with pytest.raises(InvalidStatus) as refusal:
            connect(f"ws://{netloc}/hello", additional_headers={"x-api-key": "secret"})

    assert "server_overloaded" == message["error"]["code"]
    assert 503 == refusal.value.response.status_code


def test_a_client_without_http_that_still_sends_reads_how_its_connection_ends(served, routes):
    """The connection is not reset, neither after a refusal nor after the last words."""
    with (
        served(routes, Limits(max_sessions=1)) as (_, plain, server),
        socket.create_connection(plain, timeout=WAIT) as client,
        socket.create_connection(plain, timeout=WAIT) as refused,
    ):
        audio = b"6400\n" + bytes(6400)
        client.sendall(audio + b"0\n")
        for connection in (client, refused):
            with connection.makefile() as lines:
                first = json.loads(lines.readline())
                assert server.server_state.tasks  # a shutdown waits for these tasks
                connection.sendall(100 * audio)
                rest = [json.loads(line) for line in lines]
                connection.sendall(100 * audio)
            connection.shutdown(socket.SHUT_WR)

            assert b"" == connection.recv(1)
            assert ("hello" in first) is bool(rest)


def test_a_client_without_http_that_stays_connected_is_left(monkeypatch):
    """A shutdown does not wait long for such a client."""
    monkeypatch.setattr(sockets, "_LINGER_SECONDS", 0.0)

    async def close():
        writer = SimpleNamespace(write_eof=lambda: None)
        async with asyncio.timeout(WAIT):
            with pytest.raises(TimeoutError):
                await sockets._TcpSocket(None, asyncio.StreamReader(), writer).close(1000)

    asyncio.run(close())


def test_a_plugin_that_does_not_load_leaves_the_others(monkeypatch, caplog):
    """The log names the broken plugin."""

    def fail():
        raise ZeroDivisionError("a defect")

    no_routes = SimpleNamespace(wlk_protocols=protocols.hookimpl(lambda: [3]))
    found = [
        *protocols.metadata.entry_points(group=protocols.ENTRY_POINT_GROUP),
        SimpleNamespace(name="broken", load=fail),
        SimpleNamespace(name="wrong", load=lambda: no_routes),
    ]
    monkeypatch.setattr("wlk_serve.protocols.metadata.entry_points", lambda **_: [*found])

    routes = installed_routes()

    assert ["/v1/realtime"] == [route.path for route in routes if route.protocol == "realtime"]
    assert ["broken", "wrong"] == [record.args[0] for record in caplog.records]
