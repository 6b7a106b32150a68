"""
How long Ray Serve takes on this machine: to start, to deploy, to replace a replica, to drain.

Two replicas of the bundled digits model hold sessions that receive audio in real time.  A drain
ends when the last session has its words and the close code 1012.  The session `ray` of nox runs it,
because it needs wlk-serve[ray]; Linux only.
"""

from __future__ import annotations

import argparse
import base64
from concurrent.futures import ThreadPoolExecutor, as_completed
import json
import os
from pathlib import Path
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import ray
from ray import serve
from ray.serve.context import _get_global_client  # what `serve deploy` calls on a cluster
from ray.serve.schema import ServeDeploySchema
from serve_load.process import free_port
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from wlk_conformance.testing import connected_digits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAME = "wlk"
CHUNK_SECONDS = 0.5
WIRE_RATE = 24_000  # samples a second in OpenAI's protocol
RESTARTED = 1012  # the close code of a server that drains
POLL_SECONDS = 0.05
PATIENCE = 120.0


def deploy(arguments: dict[str, Any], *, is_draining: bool = False) -> None:
    """Deploy as `serve deploy` does, and wait until Ray calls it running."""
    deployment = {"name": NAME, "user_config": {"draining": is_draining}}
    application = {
        "name": NAME,
        "import_path": "wlk_serve.ray:build",
        "args": arguments,
        "deployments": [deployment],
    }
    config = ServeDeploySchema(applications=[application])
    _get_global_client().deploy_apps(config, _blocking=True)


def timed(label: str, function: Callable[[], object]) -> None:
    """Print how long *function* takes."""
    began = time.monotonic()
    function()
    print(f"{label:<58}{time.monotonic() - began:6.1f} s")


def replica_processes() -> set[int]:
    """Return the ids of the processes that hold replicas."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                name = (entry / "cmdline").read_bytes()
                if name.startswith(f"ray::ServeReplica:{NAME}:".encode()):
                    found.add(int(entry.name))
        except OSError:  # the process has ended
            continue
    return found


def running_replicas() -> int:
    """Return how many replicas take sessions."""
    deployments = serve.status().applications[NAME].deployments
    return sum(each.replica_states.get("RUNNING", 0) for each in deployments.values())


def wait_until(is_true: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not is_true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"expected this within {PATIENCE:g} s; Ray's log has the reason")
        time.sleep(POLL_SECONDS)


def kill_one(replicas: int) -> None:
    """Kill a replica, and wait until another one takes its place."""
    before = replica_processes()
    os.kill(min(before), signal.SIGKILL)
    wait_until(lambda: len(replica_processes() - before) == 1 and running_replicas() == replicas)


def messages() -> Iterator[str]:
    """Yield the audio of a session without end, a message for each chunk."""
    speech = connected_digits(12, seed=5).audio
    times = np.arange(0, len(speech) / 16_000, 1 / WIRE_RATE)
    wire = np.interp(times, np.arange(len(speech)) / 16_000, speech)
    samples = np.round(wire * 32_767).astype("<i2")
    size = round(CHUNK_SECONDS * WIRE_RATE)
    number = 0
    while True:
        chunk = np.take(samples, range(number * size, (number + 1) * size), mode="wrap")
        audio = base64.b64encode(chunk.tobytes()).decode()
        yield json.dumps({"type": "input_audio_buffer.append", "audio": audio})
        number += 1


def talk(url: str, begun: threading.Barrier) -> tuple[int | None, float, str]:
    """Send audio in real time until the server closes; return its code, when, and the text."""
    text = ""
    with connect(url, open_timeout=PATIENCE) as client:
        begun.wait(PATIENCE)
        try:
            for message in messages():
                client.send(message)
                deadline = time.monotonic() + CHUNK_SECONDS
                while (left := deadline - time.monotonic()) > 0:
                    try:
                        event = json.loads(client.recv(timeout=left))
                    except TimeoutError:
                        break
                    text += event.get("delta", "")
        except ConnectionClosed as closed:
            return (closed.rcvd.code if closed.rcvd else None), time.monotonic(), text
    raise AssertionError("a session has no end of its own")


def drain(url: str, sessions: int, seconds: float, arguments: dict[str, Any]) -> None:
    """Drain with sessions that talk; print when the first and the last one were closed."""
    begun = threading.Barrier(sessions + 1)
    with ThreadPoolExecutor(sessions) as pool:
        talks = [pool.submit(talk, url, begun) for _ in range(sessions)]
        begun.wait(PATIENCE)
        time.sleep(seconds)
        began = time.monotonic()
        deploy(arguments, is_draining=True)
        deployed = time.monotonic() - began
        closed = [talk.result() for talk in as_completed(talks)]
    codes = [code for code, _, _ in closed]
    waits = sorted(moment - began for _, moment, _ in closed)
    with_words = sum(bool(text) for _, _, text in closed)
    row = "{:<58}{:6.1f} s"
    print(row.format("drain: the flag is set", deployed))
    print(row.format("drain: the first session is closed", waits[0]))
    print(row.format("drain: the last session is closed", waits[-1]))
    print(f"{with_words} of {sessions} had words, {codes.count(RESTARTED)} were closed with 1012")


def main() -> None:
    """Run every measurement once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5.0, help="of audio before the drain")
    parser.add_argument("--replicas", type=int, default=2)
    options = parser.parse_args()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    port = free_port()
    url = f"ws://127.0.0.1:{port}/v1/realtime?intent=transcription"
    count = options.replicas
    arguments: dict[str, Any] = {"backend": "faster-whisper", "model": "digits"}
    arguments |= {"min_replicas": count, "max_replicas": count, "num_cpus": 0.4}
    arguments |= {"max_sessions": options.sessions, "drain_seconds": 0, "session_seconds": 100}
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")

    def start() -> None:
        ray.init(include_dashboard=False, object_store_memory=80_000_000, log_to_driver=False)
        serve.start(http_options={"host": "127.0.0.1", "port": port})

    def first_session() -> None:
        with connect(url, open_timeout=PATIENCE) as client:
            client.recv(timeout=PATIENCE)

    timed("Ray and its proxy are started", start)
    try:
        timed(f"{count} replicas are deployed", lambda: deploy(arguments))
        timed("the first session is open", first_session)
        timed("a killed replica is replaced", lambda: kill_one(count))
        drain(url, options.sessions, options.seconds, arguments)
        timed("the application takes sessions again", lambda: deploy(arguments))
        timed(
            f"{count} idle replicas are replaced by an update",
            lambda: deploy({**arguments, "session_seconds": 200}),
        )
        timed("the application is deleted", lambda: serve.delete(NAME))
    finally:
        serve.shutdown()
        ray.shutdown()


if __name__ == "__main__":
    main()
