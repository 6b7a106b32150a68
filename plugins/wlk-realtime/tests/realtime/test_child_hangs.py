"""A server of another environment that hangs is ended and started again, like one that crashes."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading

import attrs
import pytest

from wlk_conformance.testing import CodedToken, encode
from wlk_core import load_backend
from wlk_core.errors import BackendError
from wlk_realtime.engine.requests import Request
from wlk_realtime.realtime import child as module
from wlk_realtime.realtime.address import Address, Endpoint
from wlk_realtime.realtime.child import Child, ServerAwayError
from wlk_realtime.realtime.child_command import ChildCommand
from wlk_realtime.realtime.reconnecting_client import ReconnectingClient
from wlk_realtime.realtime.server_pool import ServerPool

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs scripts that can be executed")

AUDIO = encode([CodedToken(1 + i % 10, 2 + 5 * i, 3) for i in range(24)], cells=124)
HALF = len(AUDIO) // 2
SILENT = "sys.stdin.read()"  # connections wait in the queue of the socket
ANSWERING = """\
import threading
def answer():
    while True:
        connection, _ = listener.accept()
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 404 Not Found\\r\\nContent-Length: 0\\r\\n\\r\\n")
        connection.close()
threading.Thread(target=answer, daemon=True).start()
sys.stdin.read()
"""


@pytest.fixture
def start(tmp_path):
    """Return a function that starts a child, which listens and then runs lines of Python."""
    children = []

    def begin(lines):
        path = tmp_path / "python"
        path.write_text(
            f"#!{sys.executable}\n"
            "import socket, sys\n"
            "listener = socket.create_server(('127.0.0.1', 0))\n"
            "port = listener.getsockname()[1]\n"
            "text = f'wlk-serve: ready on http://127.0.0.1:{port} (toy, digits)'\n"
            f"print(text, file=sys.stderr, flush=True)\n{lines}\n"
        )
        path.chmod(0o755)
        child = Child(ChildCommand(python=path, backend="toy"), start_seconds=300.0)
        children.append(child)
        child.wait_until_ready()
        return child

    yield begin
    for child in children:
        child.close()


def test_a_child_that_no_longer_answers_is_ended_and_started_again(start, monkeypatch):
    """The call that waited for it may be made again."""
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 0.2)
    child = start(SILENT)
    endpoint, process_id = child.endpoint(), child.process_id

    explained = child.explain_failure(TimeoutError(), endpoint)
    child.wait_until_ready()

    assert "crashed (SIGKILL: it did not answer for 0.2 s) and is started again" == str(explained)
    assert not explained.is_over
    assert process_id != child.process_id


@pytest.mark.parametrize("error", [TimeoutError(), EOFError()], ids=["no answer", "lost"])
def test_a_child_that_answers_is_left_alone(error, start, monkeypatch):
    """Its engine may need more time than a call has."""
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 300.0)
    child = start(ANSWERING)
    endpoint, process_id = child.endpoint(), child.process_id

    explained = child.explain_failure(error, endpoint)

    assert error is explained
    assert endpoint is child.endpoint()
    assert process_id == child.process_id


def test_many_streams_that_wait_for_a_child_check_it_once(start, monkeypatch):
    """A child that has just answered is not checked again."""
    checks = []
    monkeypatch.setattr(module, "_answers", lambda *_, **__: not checks.append("check"))
    child = start(SILENT)

    for _ in range(3):
        child.explain_failure(TimeoutError(), child.endpoint())

    assert ["check"] == checks


@attrs.define
class AwaySource:
    """A child whose connections fail; counts how often it is checked."""

    calls: threading.Semaphore = attrs.field(factory=lambda: threading.Semaphore(0))
    name: str = "toy of /venv"
    key_variable: str = ""

    def endpoint(self):
        """Return an address at which nothing listens."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        return Endpoint(address=Address(url=f"ws://127.0.0.1:{port}/v1/realtime"))

    def explain_failure(self, _error, _endpoint):
        """Return a hang."""
        self.calls.release()
        return ServerAwayError("crashed (hung) and is started again", is_over=False)

    def close(self):
        """Do nothing."""


def test_every_server_that_does_not_answer_is_checked():
    """Also one whose stream goes on at another server."""
    sources = [AwaySource(), AwaySource()]
    pool = ServerPool(sources, timeout_seconds=60.0)

    def admit(_server):
        raise TimeoutError

    client = ReconnectingClient(lambda: list(pool.servers), admit, timeout_seconds=60.0)
    request = Request(utterance=0, first=0, stop=0, is_last=True, audio=lambda *_: None)
    with pytest.raises(BackendError, match=r"crashed \(hung\) and is started again"):
        pool.ask(client, request)
    pool._loop.stop()

    assert all(source.calls.acquire(timeout=60) for source in sources)


def test_a_child_that_hangs_before_its_first_stream_is_started_again():
    """The first request is that for its models."""
    source = AwaySource()
    with pytest.raises(BackendError, match=r"crashed \(hung\)") as raised:
        ServerPool([source], timeout_seconds=60.0).declaration  # noqa: B018 -- a property that raises

    assert raised.value.retryable
    assert source.calls.acquire(timeout=60)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "WUNTRACED"), reason="needs signals that stop a process")
def test_a_child_that_hangs_costs_a_stream_no_word(monkeypatch):
    """The call that waits for it fails in its time, and the next one goes on at a new process."""
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 0.2)
    with load_backend(
        "realtime", "digits", python=sys.executable, backend="scripted", timeout_seconds=300.0
    ) as backend:
        expected = backend.transcribe(AUDIO, vad=False).text
        stream = backend.create_processor()
        stream.insert_audio_chunk(AUDIO[:HALF])
        words = [token.text for token in stream.process_iter().committed]
        (client,) = backend.engine._clients
        hung = backend.engine.servers[0].source.process_id
        os.kill(hung, signal.SIGSTOP)
        os.waitpid(hung, os.WUNTRACED)  # until it has stopped
        stream.insert_audio_chunk(AUDIO[HALF:])
        with monkeypatch.context() as patch:
            patch.setattr(client, "_timeout_seconds", 0.2)
            with pytest.raises(BackendError, match=r"did not answer for 0\.2 s") as raised:
                stream.process_iter()
        words += [token.text for token in stream.process_iter().committed]
        words += [token.text for token in stream.finish().committed]
        stream.close()
        restarted = backend.engine.servers[0].source.process_id

    assert raised.value.retryable
    assert not raised.value.is_exhausted
    assert expected == "".join(words)
    assert hung != restarted
