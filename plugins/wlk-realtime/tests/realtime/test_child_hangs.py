"""A server of another environment that hangs is ended and started again, like one that crashes."""

from __future__ import annotations

import os
import signal
import socket
import sys

import attrs
import pytest

from wlk_conformance.testing import CodedToken, encode
from wlk_core import load_backend
from wlk_core.errors import BackendError
from wlk_realtime.engine.exchange import SessionConfig
from wlk_realtime.realtime import child as module
from wlk_realtime.realtime.address import Address
from wlk_realtime.realtime.child import Child
from wlk_realtime.realtime.child_process import ChildCommand, ChildProcess
from wlk_realtime.realtime.client import Client
from wlk_realtime.realtime.errors import ServerAwayError
from wlk_realtime.realtime.link import Link
from wlk_realtime.realtime.server import Endpoint

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

    diagnosed = child.diagnosed(TimeoutError(), endpoint)
    child.wait_until_ready()

    assert "crashed (SIGKILL: it did not answer for 0.2 s) and is started again" == str(diagnosed)
    assert not diagnosed.is_over
    assert process_id != child.process_id


@pytest.mark.parametrize("error", [TimeoutError(), EOFError()], ids=["no answer", "lost"])
def test_a_child_that_answers_is_left_alone(error, start, monkeypatch):
    """Its engine may need more time than a call has."""
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 300.0)
    child = start(ANSWERING)
    endpoint, process_id = child.endpoint(), child.process_id

    diagnosed = child.diagnosed(error, endpoint)

    assert error is diagnosed
    assert endpoint is child.endpoint()
    assert process_id == child.process_id


def test_many_streams_that_wait_for_a_child_check_it_once(start, monkeypatch):
    """A child that has just answered is not checked again."""
    checks = []
    monkeypatch.setattr(module, "answers", lambda *_, **__: not checks.append("check"))
    child = start(SILENT)

    for _ in range(3):
        child.diagnosed(TimeoutError(), child.endpoint())

    assert ["check"] == checks


def test_a_check_that_fails_lets_nothing_wait(start, monkeypatch):
    """The error of the call is returned as it was."""

    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr(module, "answers", fail)
    monkeypatch.setattr("threading.excepthook", lambda _: None)
    child = start(SILENT)
    error = TimeoutError()

    assert error is child.diagnosed(error, child.endpoint())


def test_a_process_that_has_ended_keeps_its_own_reason(tmp_path):
    """A check that comes after its end changes nothing."""
    path = tmp_path / "python"
    path.write_text("#!/bin/sh\nexit 7\n")
    path.chmod(0o755)
    process = ChildProcess(ChildCommand(python=path, backend="toy"))
    ending = process.wait()

    process.kill("it did not answer for 5 s")

    assert "exit status 7" == ending == process.wait()


@attrs.define
class AwaySource:
    """A child whose connections fail; notes what it is asked."""

    calls: list[str] = attrs.field(factory=list)
    name: str = "toy of /venv"
    key_variable: str = ""

    def endpoint(self):
        """Return an address at which nothing listens."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        return Endpoint(address=Address(url=f"ws://127.0.0.1:{port}/v1/realtime"))

    def suspect(self, _endpoint):
        """Note it."""
        self.calls.append("suspect")

    def diagnosed(self, _error, _endpoint):
        """Return a hang."""
        self.calls.append("diagnosed")
        return ServerAwayError("crashed (hung) and is started again", is_over=False)

    def close(self):
        """Do nothing."""


def test_every_server_that_does_not_answer_is_checked():
    """Also one whose stream goes on at another server."""
    sources = [AwaySource(), AwaySource()]
    client = Client(sources, timeout_seconds=60.0)

    def admit(_server):
        raise TimeoutError

    link = Link(lambda: list(client.servers), admit, timeout_seconds=60.0)
    with pytest.raises(BackendError, match=r"crashed \(hung\) and is started again"):
        client._loop.run(link.check(SessionConfig()))
    client._loop.stop()

    assert [["suspect"], ["suspect", "diagnosed"]] == [source.calls for source in sources]


def test_a_child_that_hangs_before_its_first_stream_is_started_again():
    """The first request is that for its models."""
    source = AwaySource()
    with pytest.raises(BackendError, match=r"crashed \(hung\)") as raised:
        Client([source], timeout_seconds=60.0).declaration  # noqa: B018 -- a property that raises

    assert raised.value.retryable
    assert ["diagnosed"] == source.calls


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
        (link,) = backend.engine._links
        hung = backend.engine.servers[0].source.process_id
        os.kill(hung, signal.SIGSTOP)
        os.waitpid(hung, os.WUNTRACED)  # until it has stopped
        stream.insert_audio_chunk(AUDIO[HALF:])
        with monkeypatch.context() as patch:
            patch.setattr(link, "_timeout_seconds", 0.2)
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
