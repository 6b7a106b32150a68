"""A server of another environment: it lives with its backend, and comes back after a crash."""

from __future__ import annotations

from http.client import HTTPConnection
import os
from pathlib import Path
import signal
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from wlk_conformance.testing import CodedToken, encode
from wlk_core import load_backend
from wlk_core.errors import BackendError, BackendUnavailable, ModelNotFoundError
from wlk_realtime.realtime import child as module
from wlk_realtime.realtime.child import Child, ServerAwayError
from wlk_realtime.realtime.child_command import ChildCommand

HERE = {"python": sys.executable, "backend": "scripted"}
AUDIO = encode([CodedToken(1 + i % 10, 2 + 5 * i, 3) for i in range(24)], cells=124)
HALF = len(AUDIO) // 2


def watched(backend):
    """Return a socket to the first child of *backend*, which ends with its process."""
    address = backend.engine.servers[0].source.endpoint().address
    return socket.create_connection((address.host, urlsplit(address.url).port), timeout=60)


def assert_ended(watch):
    """Assert that the process at the other end of a socket ends."""
    try:
        assert watch.recv(1) == b""
    except ConnectionResetError:
        pass
    finally:
        watch.close()


@pytest.mark.slow
def test_a_child_serves_its_backend_and_ends_with_it():
    """All that is declared there is declared here."""
    with load_backend("realtime", "digits", **HERE) as backend:
        text = backend.transcribe(AUDIO, vad=False).text
        watch = watched(backend)

    assert_ended(watch)
    assert 24 == len(text.split())
    assert ("digits",) == backend.spec.digit_models


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGKILL], ids=["abort", "kill"])
def test_a_child_that_crashes_costs_a_stream_no_word(number):
    """One call may fail; the next one goes on at another process."""
    with load_backend("realtime", "digits", **HERE) as backend:
        expected = backend.transcribe(AUDIO, vad=False).text
        stream = backend.create_processor()
        stream.insert_audio_chunk(AUDIO[:HALF])
        words = [token.text for token in stream.process_iter().committed]
        os.kill(backend.engine.servers[0].source.process_id, number)
        stream.insert_audio_chunk(AUDIO[HALF:])
        failures = []
        try:
            words += [token.text for token in stream.process_iter().committed]
        except BackendError as error:  # unless the loss was noticed before the call
            failures.append(error)
        words += [token.text for token in stream.finish().committed]
        stream.close()

    assert all(error.retryable for error in failures)
    assert expected == "".join(words)


@pytest.mark.slow
def test_a_child_ends_when_its_parent_is_killed():
    """The end of its standard input is the only sign that it gets."""
    script = (
        "import sys\n"
        "from wlk_core import load_backend\n"
        f"backend = load_backend('realtime', 'digits', **{HERE!r})\n"
        "print(backend.engine.servers[0].source.endpoint().address.url, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        port = urlsplit(parent.stdout.readline().strip()).port
        watch = socket.create_connection(("127.0.0.1", port), timeout=60)
        parent.kill()

    assert_ended(watch)


@pytest.mark.slow
def test_a_child_serves_this_process_alone():
    """Another one has no key, and the command line contains none."""
    with load_backend("realtime", "digits", **HERE) as backend:
        source = backend.engine.servers[0].source
        endpoint = source.endpoint()
        http = HTTPConnection(urlsplit(endpoint.address.url).netloc, timeout=60)
        http.request("GET", "/v1/models")
        status = http.getresponse().status
        http.close()
        arguments = Path(f"/proc/{source.process_id}/cmdline")
        command = arguments.read_bytes() if arguments.exists() else b""

    assert 401 == status
    assert endpoint.key.encode() not in command
    assert endpoint.key not in repr(endpoint)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"backend": "nope"}, "exit status 1: no backend called 'nope'"),
        ({"backend_options": "speed=9"}, "no option is called 'speed'"),
    ],
    ids=["an unknown backend", "an unknown option"],
)
def test_a_child_that_cannot_start_shows_its_own_line(options, reason):
    """It is not started again."""
    with pytest.raises(BackendUnavailable) as raised:
        load_backend("realtime", "digits", **{**HERE, **options})

    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.slow
def test_a_model_that_is_not_there_is_the_error_of_its_backend():
    """The command that gets it is in the line."""
    with pytest.raises(ModelNotFoundError, match="owner/absent"):
        load_backend("realtime", "owner/absent", **HERE)


def program(tmp_path, text):
    """Return the path of a shell script in the place of a Python."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def started(python, seconds=60.0):
    """Return a child of the program *python*."""
    return Child(ChildCommand(python=python, backend="toy"), start_seconds=seconds)


@pytest.mark.skipif(os.name == "nt", reason="needs /bin/sh")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("exit 0", "did not start (exit status 0)"),
        ("echo 'python: No module named wlk_serve' >&2; exit 1", "-m pip install wlk-serve"),
        ("echo a >&2; echo b >&2; echo c >&2; exit 7", "exit status 7: a / b / c"),
        ("echo 'wlk-serve: no model' >&2; echo noise >&2; exit 1", "exit status 1: no model"),
        ("kill -ABRT $$", "SIGABRT"),
    ],
    ids=["nothing", "no wlk-serve", "a traceback", "a reason before noise", "an abort"],
)
def test_a_program_that_is_no_server_is_one_line(text, reason, tmp_path):
    """The line contains what it wrote last."""
    child = started(program(tmp_path, text))
    with pytest.raises(BackendUnavailable) as raised:
        child.wait_until_ready()
    child.close()

    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.skipif(os.name == "nt", reason="needs /bin/sh")
def test_a_program_that_never_gets_ready_is_ended(tmp_path):
    """After the time for a start."""
    child = started(program(tmp_path, "exec sleep 600"), seconds=0.1)
    with pytest.raises(BackendUnavailable, match=r"was not ready after 0\.1 s"):
        child.wait_until_ready()
    child.close()


READY = "wlk-serve: ready on http://127.0.0.1:9 (toy, digits)"


@pytest.mark.skipif(os.name == "nt", reason="needs /bin/sh")
def test_a_connection_that_is_lost_with_its_child_is_a_crash(tmp_path, monkeypatch):
    """The line is that of the child, and the call may be made again."""
    monkeypatch.setattr(module, "_FIRST_PAUSE", 600.0)
    monkeypatch.setattr(module, "_REPORT_SECONDS", 60.0)
    text = f"echo '{READY}' >&2; read line; echo 'out of memory' >&2; exit 70"
    child = started(program(tmp_path, text))
    child.wait_until_ready()
    endpoint, lost = child.endpoint(), ConnectionResetError()
    child._process.stdin.close()
    explained = child.explain_failure(lost, endpoint)
    child.close()

    assert "crashed (exit status 70: out of memory) and is started again" == str(explained)
    assert not explained.is_over


@pytest.mark.skipif(os.name == "nt", reason="needs /bin/sh")
def test_a_child_that_crashes_often_is_given_up(tmp_path, monkeypatch):
    """Six crashes within ten minutes are the end, and waiting for it does not help."""
    monkeypatch.setattr(module, "_FIRST_PAUSE", 0.0)
    runs = tmp_path / "runs"
    child = started(program(tmp_path, f"echo '{READY}' >&2; echo run >> {runs}; exit 70"))
    with child._changed:
        child._changed.wait_for(lambda: child._is_over, 60)
    with pytest.raises(ServerAwayError, match=r"crashed 6 times in 10 minutes") as raised:
        child.endpoint()
    child.close()

    assert raised.value.is_over
    assert 6 == len(runs.read_text().split())
