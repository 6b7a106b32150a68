"""Missing, foreign, hostile or untrusted servers fail with one line: the address and a remedy."""

from __future__ import annotations

from contextlib import contextmanager, suppress
import datetime as dt
from functools import partial
import json
import socket
import ssl
import threading

import numpy as np
from openai_server import SmallOpenAi
import pytest
from server_process import ServerProcess
from small_vllm import SmallVllm
from web_sockets import listening, running

from wlk_core import load_backend
from wlk_core.errors import BackendError, OptionError, StreamBroken
from wlk_live import transcribe
from wlk_realtime.realtime.declaration import Declaration

CREATED = json.dumps({"type": "session.created", "session": {}})
FORMAT = {"type": "audio/wlk-f32le", "rate": 16_000}
UPDATED = json.dumps(
    {
        "type": "session.updated",
        "session": {"include": ["wlk.marks"], "audio": {"input": {"format": FORMAT}}},
    }
)
SECOND = np.zeros(16_000, np.float32)
TIMEOUT = 0.5  # seconds, for servers that never answer


def failure(url, monkeypatch=None, **options):
    """Return the error for a first second of audio; *monkeypatch* skips the list of models."""
    with load_backend("realtime", url, **options) as backend:
        if monkeypatch is not None:
            monkeypatch.setattr(backend.engine, "_declaration", Declaration(languages=("en",)))
        with pytest.raises(BackendError) as raised:
            stream = backend.create_processor()
            try:
                stream.insert_audio_chunk(SECOND)
                stream.process_iter()
            finally:
                stream.close()
    message = str(raised.value)
    assert url.partition("#")[0] in message
    assert "\n" not in message
    return raised.value


@contextmanager
def refused():
    """Yield an address on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"ws://127.0.0.1:{listener.getsockname()[1]}/v1/realtime"
    yield url


@contextmanager
def tcp(answer):
    """Yield the address of a server that sends *answer*, bytes or a function; None to wait."""
    listener = socket.create_server(("127.0.0.1", 0))
    accepted = []

    def run():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            accepted.append(connection)
            if answer is not None:
                with suppress(OSError):  # the client may have disconnected
                    connection.recv(65_536)
                    answer(connection) if callable(answer) else connection.sendall(answer)
                connection.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield f"ws://127.0.0.1:{listener.getsockname()[1]}/v1/realtime"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for connection in accepted:
            connection.close()
        thread.join(30)


def drip(connection):
    """Send a header in small parts, for longer than the timeout of a call."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Drip: ")
    never = threading.Event()
    while not never.wait(TIMEOUT / 10):
        connection.sendall(b"x")


@contextmanager
def web_socket(*messages):
    """Yield the address of a server that sends *messages* to each client, then waits."""

    def serve(connection):
        for message in messages:
            connection.send(message)
        for _ in connection:
            pass

    with listening(serve) as port:
        yield f"ws://127.0.0.1:{port}/v1/realtime"


def marked(**fields):
    """Return the answer to the first mark."""
    empty = {"tokens": [], "hypothesis": [], "processed_up_to": 0.0, "stable_up_to": 0.0}
    return json.dumps({"type": "wlk.marked", "id": "1", **empty, "stats": {}, **fields})


def status(line, *headers):
    """Return a response without a body."""
    return "\r\n".join([f"HTTP/1.1 {line}", *headers, "Content-Length: 0", "", ""]).encode()


PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\r\n<html>hi</html>"
NONSENSE = "sent an unexpected message"


@pytest.mark.parametrize(
    ("server", "remedy", "is_retryable"),
    [
        (refused, "start it with: wlk-serve", True),
        (partial(tcp, None), "--option timeout_seconds", True),
        (partial(tcp, drip), "--option timeout_seconds", True),
        (partial(tcp, PAGE), "write the address with its path", False),
        (partial(tcp, status("404 Not Found")), "write the address with its path", False),
        (
            partial(tcp, status("302 Found", "Location: ws://evil.example/")),
            "which is not followed",
            False,
        ),
        (partial(tcp, status("401 Unauthorized")), "export WLK_REALTIME_API_KEY=", False),
        (partial(tcp, status("503 Busy")), "try again later", True),
        (partial(tcp, b"220 mail.example ESMTP\r\n"), "--model ws://", True),
        (partial(tcp, b""), "", True),
        (partial(web_socket, "nonsense"), NONSENSE, True),
        (partial(web_socket, b"\x00\xff"), NONSENSE, True),
        (partial(web_socket, CREATED, UPDATED[:50]), NONSENSE, True),
        (partial(web_socket, CREATED, '{"type": "session.updated"}'), NONSENSE, True),
        (partial(web_socket, CREATED, UPDATED, marked(id="7")), NONSENSE, True),
    ],
    ids=[
        "none", "never answers", "never ends", "a page", "a wrong path", "a redirect",
        "a wrong key", "busy", "no HTTP", "nothing", "nonsense", "bytes", "half a message",
        "no marks", "an answer to no request",
    ],
)  # fmt: skip
def test_a_server_that_cannot_be_used_is_one_line(server, remedy, is_retryable, monkeypatch):
    """Each error has its remedy, for the list of models and the WebSocket; calls time out."""
    options = {"timeout_seconds": TIMEOUT} if "timeout" in remedy else {}
    with server() as url:
        for patch in (None, monkeypatch):
            error = failure(url, patch, **options)

            assert remedy in str(error)
            assert error.retryable == is_retryable
            assert error.is_exhausted == bool(options)


@pytest.mark.parametrize(
    ("server", "model", "options", "message"),
    [
        (SmallOpenAi(has_detection=True), "", {}, "without turn detection"),
        (SmallOpenAi(), "", {"dialect": "vllm"}, "leave the option dialect out"),
        (SmallVllm(), "", {"dialect": "openai"}, "leave the option dialect out"),
        (SmallVllm(), "#large", {}, "does not exist"),
        (SmallVllm(max_model_len=100), "", {}, "--max-model-len"),
    ],
)
def test_a_server_that_is_not_the_wanted_one(server, model, options, message):
    """A different dialect, model or mode is an error before any audio is sent."""
    with running(server) as url:
        assert message in str(failure(url + model, **options))

    assert getattr(server, "items", []) == []


WORD = {"text": " one", "start": 0.1, "end": 0.2, "probability": None}


@pytest.mark.parametrize(
    "answer",
    [{"tokens": [{**WORD, "end": 60.0}]}, {"tokens": [WORD] * 1000}],
    ids=["beyond the audio", "far too many words"],
)
def test_a_healthy_stream_gets_no_garbage(answer, monkeypatch):
    """An invalid answer is an error, which breaks the stream after three retries."""

    def handler(connection):
        connection.send(CREATED)
        for text in connection:
            kind = json.loads(text)["type"]
            if kind == "session.update":
                connection.send(UPDATED)
            elif kind == "wlk.mark":
                connection.send(marked(**answer))

    with (
        listening(handler) as port,
        load_backend("realtime", f"ws://127.0.0.1:{port}/v1/realtime") as backend,
    ):
        monkeypatch.setattr(backend.engine, "_declaration", Declaration())
        stream = backend.create_processor()
        stream.insert_audio_chunk(SECOND)
        errors = []
        for _ in range(4):
            with pytest.raises(BackendError) as raised:
                stream.process_iter()
            errors.append(raised.value)
        stream.close()

    assert all(NONSENSE in str(error) for error in errors)
    assert isinstance(errors[-1], StreamBroken)
    assert stream.get_buffer().text == ""


def test_a_key_that_a_server_repeats_is_not_shown(monkeypatch):
    """Error messages end up in logs."""
    monkeypatch.setenv("WLK_REALTIME_API_KEY", "open-sesame")
    message = {"type": "error", "error": {"message": "bad key open-sesame", "code": "x"}}
    with web_socket(json.dumps(message)) as url:
        error = failure(url, monkeypatch)

    assert "bad key ***" in str(error)
    assert "open-sesame" not in str(error)


def test_a_key_opens_a_server(monkeypatch):
    """The table above has a row for a wrong key."""
    monkeypatch.setenv("WLK_REALTIME_API_KEY", "open-sesame")
    with (
        ServerProcess("scripted", TEST_KEYS="open-sesame") as server,
        load_backend("realtime", server.url) as backend,
    ):
        backend.warmup()

        assert backend.spec.languages == ("en", "de")


def test_what_the_server_cannot_do_is_refused_when_a_stream_is_opened(scripted_server):
    """This covers languages, a prompt that its backend does not support, and a missing model."""
    with load_backend("realtime", scripted_server.url) as backend:
        backend.create_processor(language="de").close()
        with pytest.raises(OptionError, match="expected one of: en, de"):
            backend.create_processor(language="fr")
        with pytest.raises(OptionError, match="takes no prompt"):
            backend.create_processor(prompt="names")

    assert "called large" in str(failure(f"{scripted_server.url}#large"))


@pytest.fixture(scope="module")
def authority():
    """Return a certificate authority that the system does not trust."""
    return pytest.importorskip("trustme", reason="pip install trustme").CA()


@pytest.fixture
def ca_file(authority, tmp_path):
    """Return the file of the authority's certificate."""
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return path


def tls_of(authority, host, folder=None):
    """Return a TLS context with a certificate for *host*, an expired or a self-signed one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if host == "own":
        authority.cert_pem.write_to_path(folder / "chain.pem")
        authority.private_key_pem.write_to_path(folder / "key.pem")
        context.load_cert_chain(folder / "chain.pem", folder / "key.pem")
    elif host == "expired":
        yesterday = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
        authority.issue_cert("localhost", not_after=yesterday).configure_cert(context)
    else:
        authority.issue_cert(host).configure_cert(context)
    return context


def ignore(connection):
    """Close the connection at once."""


def test_a_server_with_a_certificate_of_a_named_authority_is_used(authority, ca_file):
    """`ca_file` is trusted for the list of models and for sessions."""
    tls = tls_of(authority, "localhost")
    with (
        running(SmallOpenAi(), tls) as url,
        load_backend("realtime", url, ca_file=str(ca_file)) as backend,
    ):
        text = transcribe(backend, np.full(32_000, 0.1, np.float32), vad=False).text

    assert (url[:3], text) == ("wss", "word0 word1")


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("localhost", "unable to get local issuer"),
        ("gpu.example", "mismatch"),
        ("expired", "certificate has expired"),
        ("own", "self-signed certificate"),
    ],
)
def test_a_certificate_that_is_not_trusted(host, reason, authority, ca_file, monkeypatch):
    """The line has the reason and what to do; naming the authority fixes no other fault."""
    options = {"ca_file": str(ca_file)} if host in ("gpu.example", "expired") else {}
    with listening(ignore, ssl=tls_of(authority, host, ca_file.parent)) as port:
        for patch in (None, monkeypatch):
            line = str(failure(f"wss://localhost:{port}/v1/realtime", patch, **options))

            assert reason in line
            assert "--option ca_file=FILE" in line


@pytest.mark.parametrize("content", [None, "", "no certificate"])
def test_a_file_without_certificates_is_refused(content, tmp_path):
    """It is refused before anything is sent."""
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content, encoding="utf-8")

    with pytest.raises(OptionError, match="option ca_file as a file of certificates") as raised:
        load_backend("realtime", "wss://localhost/v1/realtime", ca_file=str(path))

    assert "\n" not in str(raised.value)
