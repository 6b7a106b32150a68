"""The server under attack: a process of its own, what it uses, and the words that it committed."""

from __future__ import annotations

from contextlib import contextmanager
import http.client
import json
import os
from pathlib import Path
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BACKENDS", "Figures", "ServerProcess", "run_server"]

BACKENDS = ("scripted", "faster-whisper")
_WAIT_SECONDS = 120
# Each processor writes what it commits to a file of its own, before any client can receive it.
_PLUGIN = """
import itertools, json, os
from pathlib import Path
from wlk_core import load_backend
from wlk_core.plugins import BackendSpec, Option, hookimpl

NAMES = itertools.count()
FOLDER = Path(os.environ["RECORDED_FOLDER"])

@hookimpl
def wlk_backends():
    return [BackendSpec(name="recorded", api=1, summary="records", load=f"{__name__}:load",
                        languages=("en",), capabilities=["probabilities"])]

class Around:
    def __init__(self, inner): self.inner = inner
    def __getattr__(self, name): return getattr(self.inner, name)
    def __enter__(self): return self
    def __exit__(self, *_): self.inner.close()

class Processor(Around):
    def __init__(self, inner):
        super().__init__(inner)
        self.path = FOLDER / f"{next(NAMES)}.jsonl"
    def process_iter(self, **options): return self.record(self.inner.process_iter(**options))
    def start_silence(self): return self.record(self.inner.start_silence())
    def finish(self): return self.record(self.inner.finish())
    def record(self, emission):
        if emission.committed:
            with self.path.open("a") as log:
                log.writelines(json.dumps(token.text) + "\\n" for token in emission.committed)
        return emission

class Backend(Around):
    def create_processor(self, **options):
        options.pop("language", None)
        return Processor(self.inner.create_processor(**options))

def load(spec, model):
    return Backend(load_backend(os.environ["RECORDED_BACKEND"], "digits"))
"""


@attrs.frozen(kw_only=True)
class Figures:
    """What a process uses: resident memory in bytes, open files, and threads."""

    memory: int
    files: int
    threads: int

    def __str__(self) -> str:
        return f"{self.memory / 1e6:.1f} MB, {self.files} files, {self.threads} threads"


@attrs.define
class ServerProcess:
    """A running server; Linux only."""

    backend: str
    process: subprocess.Popen[bytes]
    port: int
    records: Path
    log: Path

    @property
    def url(self) -> str:
        """The address of sessions."""
        return f"ws://127.0.0.1:{self.port}/v1/realtime"

    def sessions(self) -> int:
        """How many sessions and requests run."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_WAIT_SECONDS)
        connection.request("GET", "/readyz")
        body = json.loads(connection.getresponse().read())
        connection.close()
        return int(body["sessions"])

    def wait_until_idle(self) -> None:
        """Wait until no session runs; those that wait for their client do so for 30 s."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while self.sessions():
            if time.monotonic() > deadline:
                raise SystemExit(f"{self.sessions()} sessions do not end")
            time.sleep(0.5)
        time.sleep(1.0)  # threads that close what they used

    @property
    def figures(self) -> Figures:
        """What it uses now."""
        home = Path(f"/proc/{self.process.pid}")
        status = dict(
            line.split(":", 1) for line in (home / "status").read_text().splitlines() if ":" in line
        )
        return Figures(
            memory=int(status["VmRSS"].split()[0]) * 1024,
            files=sum(1 for _ in (home / "fd").iterdir()),
            threads=int(status["Threads"]),
        )

    @property
    def cpu_seconds(self) -> float:
        """Processor time so far, of all threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def committed(self) -> list[str]:
        """Return the text that each stream committed, without its spaces."""
        return [
            letters("".join(map(json.loads, path.read_text().splitlines())))
            for path in self.records.iterdir()
        ]

    def unexpected_lines(self) -> list[str]:
        """Return what it wrote beside its first line and one for each session."""
        expected = ("wlk-serve: session ", "wlk-serve: ready ")
        lines = self.log.read_text().splitlines()
        return [line for line in lines if not line.startswith(expected)]

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Wait for the end; return the status."""
        return self.process.wait(_WAIT_SECONDS)


def letters(text: str) -> str:
    """Return *text* without its spaces, which messages place differently."""
    return "".join(text.split())


@contextmanager
def run_server(backend: str, *options: str) -> Iterator[ServerProcess]:
    """
    Run a server until it is ready; end it at last.

    Args:
        backend: one of BACKENDS.
        options: further arguments of the command.

    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        records, log = folder / "records", folder / "log"
        records.mkdir()
        _install_plugin(folder)
        path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
        environment = {
            **os.environ,
            "PYTHONPATH": path,
            "OMP_NUM_THREADS": "1",
            "RECORDED_FOLDER": str(records),
            "RECORDED_BACKEND": backend,
        }
        command = [sys.executable, "-m", "wlk_serve", "--backend", "recorded", "--model", "digits"]
        command += ["--port", "0", *options]
        with (
            log.open("wb") as errors,
            subprocess.Popen(command, env=environment, stdout=errors, stderr=errors) as process,
        ):
            try:
                yield ServerProcess(backend, process, _port(process, log), records, log)
            finally:
                if process.poll() is None:
                    process.kill()


def _install_plugin(folder: Path) -> None:
    (folder / "recorded_plugin.py").write_text(_PLUGIN, encoding="utf-8")
    info = folder / "wlk_recorded-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: wlk-recorded\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[wlk.plugins]\nrecorded = recorded_plugin\n")


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    """Wait until the server is ready; return its port."""
    while process.poll() is None:
        text = log.read_text()
        if "ready on http" in text:
            return int(text.partition("ready on http://127.0.0.1:")[2].split()[0])
        time.sleep(0.1)
    raise SystemExit(f"the server ended with status {process.returncode}: {log.read_text()}")
