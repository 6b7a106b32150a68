"""wlk-serve on a local Ray Serve: refusals, drains and dying replicas."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
import json
import os
from pathlib import Path
import signal
import socket
import threading
import urllib.request

import pytest

ray = pytest.importorskip("ray", reason="runs in: nox -s 'clients(ray)'")
pytest.importorskip("wlk_realtime", reason="runs in: nox -s 'clients(ray)'")

from ray import serve  # noqa: E402 -- after the skip
from ray.serve.context import _get_global_client  # noqa: E402
from ray.serve.schema import ServeDeploySchema  # noqa: E402
from websockets.exceptions import ConnectionClosed, InvalidStatus  # noqa: E402
from websockets.sync.client import connect  # noqa: E402

from wlk_conformance.testing import CodedToken, encode, partition  # noqa: E402
from wlk_core import load_backend  # noqa: E402
from wlk_live import Commit, stream  # noqa: E402
from wlk_serve.ray import build  # noqa: E402

REPLICAS = 2
SESSIONS = 20
WORDS = 40
PATIENCE = 300  # seconds, for what takes a few on an idle machine


@pytest.fixture(scope="module")
def port():
    """Return the port of a local Ray Serve."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    ray.init(num_cpus=REPLICAS, include_dashboard=False, object_store_memory=80_000_000)
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    yield port
    serve.shutdown()
    ray.shutdown()


def arguments(**changed):
    """Return the arguments of an application with two replicas of the scripted backend."""
    usual = {"backend": "scripted", "model": "digits", "max_sessions": SESSIONS}
    sizes = {"min_replicas": REPLICAS, "max_replicas": REPLICAS, "num_cpus": 0.4}
    return {**usual, **sizes, "session_seconds": 100, "drain_seconds": 0, **changed}


def deploy(changed=None):
    """Deploy the application with new replicas, as `serve run` does."""
    serve.run(build(arguments(**(changed or {}))), name="wlk")


def deploy_file(user_config):
    """Deploy the application from a YAML file, as `serve deploy` does; replicas may stay."""
    application = {
        "name": "wlk",
        "import_path": "wlk_serve.ray:build",
        "args": arguments(),
        "deployments": [{"name": "wlk", "user_config": user_config}],
    }
    config = ServeDeploySchema(applications=[application])
    _get_global_client().deploy_apps(config, _blocking=True)


def speech(number):
    """Return coded audio with pauses and with different words for each session."""
    tokens = [
        CodedToken(1 + (7 * number + 3 * index) % 10, 4 + 8 * index + 6 * (index // 10), 4)
        for index in range(WORDS)
    ]
    return encode(tokens, cells=tokens[-1].start + 12)


def transcribe(backend, audio, before=lambda _chunk: None):
    """
    Return the words of *audio* with their times; `before` is called before each chunk.

    Silero takes coded audio for silence.
    """

    def chunks():
        for number, chunk in enumerate(partition(audio, 0.5)):
            before(number)
            yield chunk

    tokens = []
    for event in stream(backend, chunks(), vad=False):
        if isinstance(event, Commit):
            tokens += event.tokens
    return [(token.text, round(token.start, 3), round(token.end, 3)) for token in tokens]


def replica_processes():
    """Return the ids of the processes that run replicas."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name = (entry / "cmdline").read_bytes()
            except OSError:  # the process has ended
                continue
            if name.startswith(b"ray::ServeReplica:wlk:wlk"):
                found.append(int(entry.name))
    return found


def status_of(port, path):
    """Return the status and the body of a GET request."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return answer.status, json.loads(answer.read())


class Turnstile:
    """Holds every session before certain chunks until all sessions have reached them."""

    def __init__(self, *chunks):
        self._arrivals = {chunk: threading.Barrier(SESSIONS + 1) for chunk in chunks}
        self._departures = {chunk: threading.Event() for chunk in chunks}

    def pass_through(self, chunk):
        """Wait before *chunk*, in a session."""
        if chunk in self._arrivals:
            self._arrivals[chunk].wait(PATIENCE)
            assert self._departures[chunk].wait(PATIENCE)

    def wait(self, chunk):
        """Wait until every session has reached *chunk*."""
        self._arrivals[chunk].wait(PATIENCE)

    def open(self, chunk):
        """Let the sessions continue."""
        self._departures[chunk].set()


def test_every_session_outlives_a_killed_replica_and_an_update(port):
    """The twenty transcripts equal those of the same backend without a server."""
    deploy()
    audios = [speech(number) for number in range(SESSIONS)]
    with load_backend("scripted", "digits") as alone:
        expected = [transcribe(alone, audio) for audio in audios]
    killing, updating = 10, 20
    turnstile = Turnstile(killing, updating)

    with (
        load_backend("realtime", f"ws://127.0.0.1:{port}/v1/realtime") as backend,
        ThreadPoolExecutor(SESSIONS) as pool,
    ):
        running = [
            pool.submit(transcribe, backend, audio, turnstile.pass_through) for audio in audios
        ]
        turnstile.wait(killing)
        before = replica_processes()
        os.kill(before[0], signal.SIGKILL)
        turnstile.open(killing)
        turnstile.wait(updating)
        with ThreadPoolExecutor(1) as other:
            update = other.submit(deploy, {"session_seconds": 500})
            turnstile.open(updating)
            transcripts = [session.result(PATIENCE) for session in running]
            update.result(PATIENCE)

    assert len(before) == REPLICAS
    assert transcripts == expected
    assert len(expected[0]) == WORDS
    assert not set(before) & set(replica_processes())


def test_a_full_replica_answers_503(port):
    """Two replicas have one place each: of four clients, two are refused in OpenAI's shape."""
    deploy({"max_sessions": 1})
    url = f"ws://127.0.0.1:{port}/v1/realtime"
    sockets, refusals = [], []
    for _ in range(4):
        try:
            sockets.append(connect(url, open_timeout=60))
        except InvalidStatus as refused:
            refusals.append(refused.response)
    for socket_ in sockets:
        socket_.close()

    assert 1 <= len(sockets) <= REPLICAS
    assert {refusal.status_code for refusal in refusals} == {503}


def test_an_application_that_drains_ends_its_sessions_with_their_words(port):
    """Sessions are closed with 1012, and new ones get 503 until the drain is switched off."""
    deploy_file({"draining": False})
    url = f"ws://127.0.0.1:{port}/v1/realtime"
    with connect(url, open_timeout=60) as client:
        client.recv()
        deploy_file({"draining": True})
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                client.recv(timeout=PATIENCE)
        with pytest.raises(InvalidStatus) as refused:
            connect(url, open_timeout=60)
    deploy_file({"draining": False})
    with connect(url, open_timeout=60) as client:
        created = json.loads(client.recv(timeout=60))

    assert closed.value.rcvd.code == 1012
    assert refused.value.response.status_code == 503
    assert created["type"] == "session.created"


def test_the_addresses_are_those_of_wlk_serve(port):
    """A replica is ready after a successful canary, and names its model."""
    deploy()

    assert (
        status_of(port, "/readyz")[0],
        status_of(port, "/readyz")[1]["status"],
    ) == (200, "ready")
    assert status_of(port, "/v1/models")[1]["data"][0]["id"] == "digits"
