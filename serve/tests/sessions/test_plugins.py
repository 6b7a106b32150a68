"""Protocols that other distributions add without changes to wlk-serve."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from importlib import metadata
import json
from pathlib import Path
import socket
from types import ModuleType, SimpleNamespace
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import attrs
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from wlk_conformance.testing import CodedToken, encode, script_words
from wlk_core.registry import Registry
from wlk_serve import protocols
from wlk_serve.admission import Limits
from wlk_serve.errors import RequestError
from wlk_serve.ops.metrics import Metrics
from wlk_serve.protocols import TcpRoute, installed_routes
from wlk_serve.server import bound_sockets
from wlk_serve.sessions import sockets

ROOT = Path(__file__).resolve().parents[3]
TEMPLATE = ROOT / "examples/template/protocol/src/{{ package }}/routes.py.jinja"
TOKENS = [CodedToken(number, 4 * number, 3) for number in range(1, 9)]
SAMPLES = encode(TOKENS, cells=40)
AUDIO = SAMPLES.tobytes()
WAIT = 60.0  # seconds after which a test that waits has failed


@pytest.fixture(scope="module")
def hello():
    """Return the protocol of the template, which docs/protocols.md shows too."""
    code = TEMPLATE.read_text(encoding="utf-8")
    code = code.replace("{{ class_name }}", "Hello").replace("{{ name }}", "hello")
    module = ModuleType("wlk_protocol_hello")
    exec(code, module.__dict__)  # noqa: S102 -- the project's own template
    return module


@pytest.fixture(scope="module")
def open_session(hello):
    """Return the example's `open`, changed for the coded audio of the scripted backend."""

    def open_session(handshake):
        opening = hello.open_session(handshake)
        options = attrs.evolve(opening.options, encoding="f32le", leaves_out_pauses=False)
        return attrs.evolve(opening, options=options)

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
    (route,) = hello.routes()
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

    assert first == {"hello": "send audio"}
    assert words_of(messages) == expected
    assert len(expected) == 8
    assert "utterance_end" in messages[-1]
    assert client.close_code == 1000


def test_a_protocol_without_http_gets_every_word(server, expected):
    """The server closes the connection after the last word."""
    with socket.create_connection(server[1], timeout=WAIT) as client:
        for start in range(0, len(AUDIO), 3200):
            part = AUDIO[start : start + 3200]
            client.sendall(b"%d\n" % len(part) + part)
        client.sendall(b"0\n")
        messages = [json.loads(line) for line in client.makefile()]

    assert messages[0] == {"hello": "send audio"}
    assert words_of(messages) == expected


@pytest.mark.parametrize("data", [b"no length\n", b"5\nab", b"1" * 70_000])
def test_a_message_that_is_none_ends_its_connection(server, data):
    """So do half a message and an endless line; the server continues."""
    with socket.create_connection(server[1], timeout=WAIT) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        messages = client.makefile().read().splitlines()

    assert len(messages) == 1


def test_a_route_says_where_its_clients_put_keys_and_how_they_are_refused(
    hello, served, open_session
):
    """Clients of other protocols use neither OpenAI's headers nor its errors."""
    (route,) = hello.routes()
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

    assert [*message] == ["refused"]
    assert client.close_code == 4401


def test_a_client_secret_opens_only_the_routes_that_take_it(hello, served, open_session):
    """It is for browsers, and many protocols reach more than the session of one reader."""
    (route,) = hello.routes()
    plain = attrs.evolve(route, open=open_session)
    taking = attrs.evolve(plain, path="/page", takes_secrets=True)
    with served([plain, taking]) as (netloc, *_):
        url = f"http://{netloc}/v1/realtime/client_secrets"
        request = Request(url, b"{}", {"x-api-key": "secret"})
        with urlopen(request) as answer:  # noqa: S310
            headers = {"x-api-key": json.load(answer)["value"]}
        with connect(f"ws://{netloc}/page", additional_headers=headers) as client:
            first = json.loads(client.recv(WAIT))
        with pytest.raises(InvalidStatus) as refused:
            connect(f"ws://{netloc}/hello", additional_headers=headers)

    assert first == {"hello": "send audio"}
    assert refused.value.response.status_code == 401


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

    assert message["error"]["code"] == "server_overloaded"
    assert refusal.value.response.status_code == 503


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

            assert connection.recv(1) == b""
            assert ("hello" in first) is bool(rest)


def test_a_client_that_only_reads_after_its_last_message_gets_every_word(server, expected):
    """It closes its side without a message that ends the audio."""
    with socket.create_connection(server[1], timeout=WAIT) as client:
        client.sendall(b"%d\n" % len(AUDIO) + AUDIO)
        client.shutdown(socket.SHUT_WR)
        messages = [json.loads(line) for line in client.makefile()]

    assert words_of(messages) == expected


def test_a_client_that_never_reads_loses_its_connection(monkeypatch):
    """Otherwise it would keep a file descriptor of the server for ever."""
    monkeypatch.setattr(sockets, "_SEND_SECONDS", 0.05)

    class Refused:
        protocol = "flood"

        def open(self, _card):
            raise RequestError("full")

        def refuse(self, _error):
            return {"error": "x" * (16 << 20)}  # more than the kernel takes

    async def run():
        writers = asyncio.get_running_loop().create_future()
        service = SimpleNamespace(card=SimpleNamespace(named=None), metrics=Metrics())
        served = sockets.SessionSockets(service, None, None, Limits())

        async def serve(reader, writer):
            writers.set_result(writer)
            await served.serve_tcp(Refused(), reader, writer)

        listening = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with asyncio.timeout(WAIT), listening:
            address = listening.sockets[0].getsockname()
            client = socket.create_connection(address)
            writer = await writers
            with pytest.raises(ConnectionError):
                await writer.wait_closed()
                await writer.drain()
            client.close()

    asyncio.run(run())


def test_a_client_without_http_that_stays_connected_is_left(monkeypatch):
    """A shutdown does not wait long for such a client."""
    monkeypatch.setattr(sockets, "_LINGER_SECONDS", 0.0)

    async def close():
        writer = SimpleNamespace(write_eof=lambda: None)
        async with asyncio.timeout(WAIT):
            with pytest.raises(TimeoutError):
                await sockets._TcpSocket(None, asyncio.StreamReader(), writer).close(1000)

    asyncio.run(close())


PROTOCOL = """
from wlk_serve.protocols import SocketRoute

def routes():
    return [SocketRoute(protocol="greet", path="/greet", open=print)]

@hookimpl
def wlk_protocols():
    return [
        PluginSpec(
            kind="protocol", name="greet", api=1, summary="greets", load=f"{__name__}:routes"
        )
    ]
"""


@pytest.fixture
def site(site):
    """Return a site that has the server and its own protocol too."""
    site.distributions.append(metadata.distribution("wlk-serve"))
    return site


@pytest.fixture
def served_paths(site, caplog):
    """Return a function that returns the paths that are served, and the lines of the log."""

    def served_paths():
        routes = installed_routes(site.registry())
        return [route.path for route in routes], [record.getMessage() for record in caplog.records]

    return served_paths


def install(site, changes=(), *, distribution="wlk-greet"):
    """Install the protocol "greet"; *changes* are pairs of a text in its module and another."""
    code = PROTOCOL
    for old, new in changes:
        assert old in code
        code = code.replace(old, new)
    site.install(distribution, ["protocol.greet"], code)


def test_a_protocol_of_another_distribution_is_served_beside_our_own(site, served_paths):
    """Nothing is logged."""
    install(site)

    assert served_paths() == (["/greet", "/v1/realtime"], [])


IMPORT, RETURN, ROUTE = "from wlk_serve", "return [\n", "return [Socket"
BROKEN_PLUGINS = {
    "a broken import": (IMPORT, f"import wlk_absent\n{IMPORT}", "wlk_absent"),
    "an exit at import": (IMPORT, f"raise SystemExit(3)\n{IMPORT}", "SystemExit: 3"),
    "a hook that raises": (RETURN, "return 1 / 0 or [\n", "division by zero"),
    "no list": (RETURN, "return 3 or [\n", "'int' object is not iterable"),
    "no spec": (RETURN, "return [3] or [\n", "expected protocols from wlk_protocols, got 3"),
    "another kind": ('kind="protocol"', 'kind="command"', "expected protocols from wlk_protocols"),
    "an older API": ("api=1", "api=0", "needs plugin API 0, but this wlk-core supports 1 to 1"),
    "a newer API": ("api=1", "api=2", "needs plugin API 2, but this wlk-core supports 1 to 1"),
    "an unknown hook": ("wlk_protocols", "wlk_protocol", "no hook is called wlk_protocol"),
}


@pytest.mark.parametrize(
    ("old", "new", "reason"), BROKEN_PLUGINS.values(), ids=BROKEN_PLUGINS.keys()
)
def test_a_broken_plugin_is_one_line_and_one_row(*, site, served_paths, command, old, new, reason):
    """The line names the distribution, the reason and the remedy; other protocols are served."""
    install(site, [(old, new)])

    paths, (line,) = served_paths()
    listed = command("plugins", "--json")
    (row,) = [row for row in json.loads(listed.out) if row["name"] == "wlk-greet"]

    assert paths == ["/v1/realtime"]
    assert line.startswith("plugin wlk-greet 0.1.0 is left out: ")
    assert reason in line
    assert "pip uninstall wlk-greet" in line
    assert (listed.status, listed.err) == (0, "")
    assert (row["status"], row["offers"]) == ("broken", [])
    assert reason in row["error"]


def test_a_hook_that_does_not_return_is_one_line(site, served_paths, monkeypatch):
    """The server does not wait for it."""
    monkeypatch.setattr("wlk_core.registry._MAX_IMPORT_SECONDS", 0.1)
    waits = [("from wlk_serve", "from threading import Event\nfrom wlk_serve")]
    install(site, [*waits, ("return [\n", "return Event().wait() or [\n")])

    paths, (line,) = served_paths()

    assert paths == ["/v1/realtime"]
    assert "did not answer within" in line


BROKEN_ROUTES = {
    "an absent module": ("{__name__}:routes", "wlk_absent:routes", "wlk_absent"),
    "an absent function": ("{__name__}:routes", "{__name__}:paths", "a function 'paths'"),
    "no function": ("{__name__}:routes", "{__name__}:__name__", "expected a function"),
    "an error": (ROUTE, "return 1 / 0 or [Socket", "division by zero"),
    "an exit": (ROUTE, f"raise SystemExit(3)\n    {ROUTE}", "SystemExit: 3"),
    "nothing": (ROUTE, "return None and [Socket", "not iterable"),
    "no routes": (ROUTE, "return [3] or [Socket", "expected routes, got 3"),
    "no address": ('"/greet"', '"greet"', "an address such as /v1/listen, got 'greet'"),
    "a pattern": ('"/greet"', '"/{greet}"', "an address such as /v1/listen, got '/{greet}'"),
}


@pytest.mark.parametrize(("old", "new", "reason"), BROKEN_ROUTES.values(), ids=BROKEN_ROUTES.keys())
def test_a_protocol_without_usable_routes_is_one_line(site, served_paths, old, new, reason):
    """The line names the protocol, the reason and the distribution; the others are served."""
    install(site, [(old, new)])

    paths, (line,) = served_paths()

    assert paths == ["/v1/realtime"]
    assert line.startswith("protocol greet cannot be used: ")
    assert reason in line
    assert "pip uninstall wlk-greet" in line


def test_routes_may_come_from_a_generator(site, served_paths):
    """Each is served."""
    install(site, [(ROUTE, "yield from [Socket")])

    assert served_paths() == (["/greet", "/v1/realtime"], [])


def test_a_protocol_that_two_distributions_offer_is_one_line(site, served_paths, command):
    """Neither is served, because choosing one silently would change answers; each has a row."""
    install(site)
    install(site, distribution="wlk-welcome")

    paths, (line,) = served_paths()
    rows = json.loads(command("plugins", "--json").out)

    assert paths == ["/v1/realtime"]
    assert line == (
        "protocol 'greet' is offered by wlk-greet 0.1.0 and wlk-welcome 0.1.0; "
        "keep one: pip uninstall wlk-welcome"
    )
    broken = {row["name"]: row["error"] for row in rows if row["status"] == "broken"}
    assert broken == {"wlk-greet": line, "wlk-welcome": line}


def test_a_broken_plugin_without_a_protocol_is_not_the_business_of_the_server(site, served_paths):
    """`wlk-core plugins` lists it; the log has lines about protocols only."""
    site.install("wlk-toy", ["toy"], "raise ImportError('no framework')")

    assert served_paths() == (["/v1/realtime"], [])
