"""Fixtures: `wlk-serve` with the digits model, and the clip's transcript by `wlk-core`."""

from __future__ import annotations

from contextlib import contextmanager
import json
import os
from pathlib import Path
import re
import signal
import socket
import subprocess
import sys

import attrs
import numpy as np
import pytest

from wlk_conformance.testing.digits import clip_path, load_clip

# The clients need their own environments: nox -s clients
collect_ignore_glob = [] if os.environ.get("WLK_CLIENTS") else ["test_*.py"]

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
KEY = "secret"
MODEL = ("--backend", "faster-whisper", "--model", "digits", "--language", "en")
LINE = re.compile(r"[0-9-]+ [0-9:,]+ wlk-serve: (session|draining|refused)")
_SECONDS = 120  # until a process must have ended


@attrs.frozen
class Expected:
    """The result of the command line: words, and the text of each turn."""

    text: str
    turns: tuple[str, ...]
    starts: tuple[float, ...]  # of the words, in seconds

    @property
    def words(self):
        """The words."""
        return self.text.split()


@pytest.fixture(scope="session")
def expected():
    """Return the clip's transcript by `wlk-core transcribe`."""
    command = [sys.executable, "-m", "wlk_core", "transcribe", str(clip_path("demo")), *MODEL]
    texts = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    command += ["--format", "json"]
    record = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    starts = tuple(token["start"] for token in record["tokens"])
    return Expected(record["text"], tuple(texts.splitlines()), starts)


class ServeProcess:
    """
    The command in its own process, on a port that stays the same across restarts.

    Args:
        options: more options of the command.
        plugins: a folder with additional plugins.

    """

    def __init__(self, *options, plugins=""):
        self._options = options
        self._plugins = str(plugins)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._process = None

    @property
    def address(self):
        """The base URL for clients."""
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self):
        """Start the process and wait until it is ready."""
        command = [sys.executable, "-m", "wlk_serve", *MODEL, "--port", str(self.port)]
        paths = filter(None, (self._plugins, os.environ.get("PYTHONPATH")))
        self._process = subprocess.Popen(
            [*command, "--drain-seconds", "0", "--api-key-env", "WLK_KEYS", *self._options],
            env={**os.environ, "WLK_KEYS": KEY, "PYTHONPATH": os.pathsep.join(paths)},
            stderr=subprocess.PIPE,
            text=True,
        )
        first = self._process.stderr.readline()
        assert "ready on" in first, first

    def terminate(self):
        """Send SIGTERM."""
        self._process.send_signal(signal.SIGTERM)

    def wait(self):
        """Wait for the end; return the exit status and the lines on standard error."""
        try:
            return self._process.wait(_SECONDS), self._process.stderr.read()
        finally:
            self._process.stderr.close()

    def restart(self):
        """Wait for the end, then start again."""
        self.wait()
        self.start()


@contextmanager
def running(*options, **places):
    """Yield a server process, which must exit with 0 and log only its sessions and its end."""
    server = ServeProcess(*options, **places)
    server.start()
    try:
        yield server
    finally:
        server.terminate()
        status, written = server.wait()
    assert status == 0
    # No client caused a traceback.
    assert [line for line in written.splitlines() if not LINE.match(line)] == []


@pytest.fixture(scope="module")
def server():
    """Return a server for all tests of a module."""
    with running() as server:
        yield server


@pytest.fixture
def restartable():
    """Return a server for one test."""
    with running() as server:
        yield server


@pytest.fixture
def serve_with():
    """Return a context manager that runs a server with more options and plugins."""
    return running


@pytest.fixture
def example():
    """Return a function that runs an example in its own process and returns its output."""

    def example(name, *arguments):
        command = [sys.executable, EXAMPLES / name, *arguments]
        environment = {**os.environ, "OPENAI_API_KEY": KEY, "DEEPGRAM_API_KEY": KEY}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return example


@pytest.fixture
def speech():
    """Return a function that returns the clip, or a part of it, as 16-bit audio at a rate."""

    def speech(rate=24_000, start=0.0, stop=None):
        audio = load_clip("demo").audio
        audio = audio[round(start * 16_000) : None if stop is None else round(stop * 16_000)]
        spectrum = np.fft.rfft(audio)
        count = len(audio) * rate // 16_000
        padded = np.zeros(count // 2 + 1, dtype=complex)
        kept = min(len(spectrum), len(padded))
        padded[:kept] = spectrum[:kept]
        audio = np.fft.irfft(padded, count) * (rate / 16_000)
        return (np.clip(audio, -1, 1) * 32_767).astype("<i2").tobytes()

    return speech
