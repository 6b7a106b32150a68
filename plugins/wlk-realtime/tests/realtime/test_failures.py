"""Servers that are absent, strange or hostile: one line with the address and the remedy."""

from __future__ import annotations

from contextlib import contextmanager, suppress
import json
import socket
import threading

import numpy as np
import pytest
from server_process import ServerProcess
from web_sockets import listening

from wlk_core import load_backend
from wlk_core.errors import BackendError, OptionError, StreamBroken
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
TIMEOUT = 0.5  # of servers that never answer


@contextmanager
def web_socket(handler):
    """Yield the address of a server whose connections *handler* serves."""
    with listening(handler) as port:
        yield f"ws://127.0.0.1:{port}/v1/realtime"


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
                with suppress(OSError):  # the client may be gone
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


def failure(url, monkeypatch=None, **options):
    """Return the error of a first second of audio."""
    with load_backend("realtime", url, **options) as backend:
        if monkeypatch is not None:  # its list of models is not what is tested
            declaration = Declaration(languages=("en",))
            monkeypatch.setattr(backend.engine, "_declaration", declaration)
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


def test_no_server(monkeypatch):
    """The connection is refused."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"ws://127.0.0.1:{listener.getsockname()[1]}/v1/realtime"

    for patch in (None, monkeypatch):
        error = failure(url, patch)
        assert "start it with: wlk-serve" in str(error)
        assert error.retryable


def test_a_server_that_accepts_and_never_answers(monkeypatch):
    """The time of the call ends."""
    with tcp(None) as url:
        for patch in (None, monkeypatch):
            error = failure(url, patch, timeout_seconds=TIMEOUT)
            assert "timeout_seconds" in str(error)
            assert error.is_exhausted


@pytest.mark.parametrize(
    ("begin", "part"),
    [
        (b"HTTP/1.1 200 OK\r\nX-Drip: ", b"x"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["a header", "chunk sizes", "100 Continue"],
)
def test_a_server_whose_answer_never_ends(begin, part):
    """One time covers all reads of the list of models, however often something comes."""
    never = threading.Event()

    def drip(connection):
        connection.sendall(begin)
        while not never.wait(TIMEOUT / 10):  # longer than all of the call, in small parts
            connection.sendall(part)

    with tcp(drip) as url:
        error = failure(url, timeout_seconds=TIMEOUT)

    assert "timeout_seconds" in str(error)


PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\r\n<html>hi</html>"
MOVED = b"HTTP/1.1 302 Found\r\nLocation: ws://evil.example/\r\nContent-Length: 0\r\n\r\n"
MISSING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
FORBIDDEN = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "remedy", "is_retryable"),
    [
        (PAGE, "write the address with its path", False),
        (MISSING, "write the address with its path", False),
        (MOVED, "audio goes to no other address", False),
        (FORBIDDEN, "export WLK_REALTIME_API_KEY=", False),
        (BUSY, "try again later", True),
        (b"220 mail.example ESMTP\r\n", "--model ws://", True),
        (b"", "", True),
    ],
    ids=["a page", "a wrong path", "a redirect", "a wrong key", "busy", "no HTTP", "nothing"],
)
def test_a_server_that_is_no_realtime_server(answer, remedy, is_retryable, monkeypatch):
    """Each has its remedy."""
    with tcp(answer) as url:
        for patch in (None, monkeypatch):  # the list of models is no better
            error = failure(url, patch)
            assert remedy in str(error)
            assert is_retryable == error.retryable


def answering(*messages):
    """Return a handler that sends *messages* at the beginning, then waits."""

    def handler(connection):
        for message in messages:
            connection.send(message)
        for _ in connection:
            pass

    return handler


def marked(**fields):
    """Return the answer to the first mark."""
    empty = {"tokens": [], "hypothesis": [], "processed_up_to": 0.0, "stable_up_to": 0.0}
    return json.dumps({"type": "wlk.marked", "id": "1", **empty, "stats": {}, **fields})


WORD = {"text": " one", "start": 0.1, "end": 0.2, "probability": None}


@pytest.mark.parametrize(
    "messages",
    [
        ["nonsense"],
        [b"\x00\xff"],
        [CREATED, UPDATED[:50]],
        [CREATED, json.dumps({"type": "session.updated", "session": {}})],
        [CREATED, UPDATED, marked(id="7")],
    ],
    ids=["nonsense", "bytes", "half a message", "no marks", "an answer to no request"],
)
def test_a_server_that_sends_nonsense(messages, monkeypatch):
    """The line quotes it."""
    with web_socket(answering(*messages)) as url:
        error = failure(url, monkeypatch)

    assert "sent what no such server sends" in str(error)


@pytest.mark.parametrize(
    "answer",
    [
        {"tokens": [{**WORD, "end": 60.0}]},
        {"tokens": [WORD] * 1000},
    ],
    ids=["beyond the audio", "far too many words"],
)
def test_a_healthy_stream_gets_no_garbage(answer, monkeypatch):
    """An answer with something wrong is an error, and after three retries the end of the stream."""

    def handler(connection):
        connection.send(CREATED)
        for text in connection:
            kind = json.loads(text)["type"]
            if kind == "session.update":
                connection.send(UPDATED)
            elif kind == "wlk.mark":
                connection.send(marked(**answer))

    with web_socket(handler) as url, load_backend("realtime", url) as backend:
        declaration = Declaration()
        monkeypatch.setattr(backend.engine, "_declaration", declaration)
        stream = backend.create_processor()
        stream.insert_audio_chunk(SECOND)
        errors = []
        for _ in range(4):
            with pytest.raises(BackendError) as raised:
                stream.process_iter()
            errors.append(raised.value)
        stream.close()

    assert all("sent what no such server sends" in str(error) for error in errors)
    assert isinstance(errors[-1], StreamBroken)
    assert "" == stream.get_buffer().text


def test_a_key_that_a_server_repeats_is_not_shown(monkeypatch):
    """Messages end up in logs."""
    monkeypatch.setenv("WLK_REALTIME_API_KEY", "open-sesame")
    message = {"type": "error", "error": {"message": "bad key open-sesame", "code": "x"}}
    with web_socket(answering(json.dumps(message))) as url:
        error = failure(url, monkeypatch)

    assert "bad key ***" in str(error)
    assert "open-sesame" not in str(error)


def test_a_key_opens_a_server(monkeypatch):
    """A wrong one does not, and is in no message: a row of the table above."""
    monkeypatch.setenv("WLK_REALTIME_API_KEY", "open-sesame")
    with (
        ServerProcess("scripted", TEST_KEYS="open-sesame") as server,
        load_backend("realtime", server.url) as backend,
    ):
        backend.warmup()

        assert ("en", "de") == backend.spec.languages


def test_what_the_server_cannot_do_is_refused_when_a_stream_is_opened(scripted_server):
    """Its languages, and a prompt that its backend does not take."""
    with load_backend("realtime", scripted_server.url) as backend:
        backend.create_processor(language="de").close()
        with pytest.raises(OptionError, match="expected one of: en, de"):
            backend.create_processor(language="fr")
        with pytest.raises(OptionError, match="takes no prompt"):
            backend.create_processor(prompt="names")


def test_another_model_is_not_at_the_server(scripted_server):
    """The message names it."""
    error = failure(f"{scripted_server.url}#large")

    assert "called large" in str(error)
