"""Run a server process, wait until it is ready, and read its resource usage; Linux only."""

from __future__ import annotations

from contextlib import contextmanager
import os
from pathlib import Path
import socket
import subprocess
import sys
import time
from typing import IO, TYPE_CHECKING
import urllib.error
import urllib.request

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

_READY_SECONDS = 600.0  # on a machine with other work, or for large models
_TICKS = os.sysconf("SC_CLK_TCK")


@attrs.frozen
class Process:
    """A running server."""

    pid: int
    address: str  # base URL of its WebSockets

    @property
    def cpu_seconds(self) -> float:
        """Processor time so far, of all threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def resident_bytes(self) -> int:
        """The current resident memory."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0


def wlk_command(
    port: int, backend: str, model: str, options: list[str], language: str
) -> list[str]:
    """Return the command of wlk-serve; *language* is empty if the model cannot be forced to one."""
    pairs = [argument for pair in options for argument in ("--option", pair)]
    command = [sys.executable, "-m", "wlk_serve", "--backend", backend, "--model", model]
    command += ["--language", language] if language else []
    return [*command, "--drain-seconds", "0", "--port", str(port), *pairs]


def free_port() -> int:
    """Return a port that is free at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def run_server(
    command: list[str], port: int, *, core: int | None, output: IO[str] | None = None
) -> Iterator[Process]:
    """
    Start a server, on one core if *core* is given; yield it once it is ready, and end it.

    What it prints is written to *output*.
    """
    environment = {**os.environ} if core is None else {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(  # noqa: S603 -- the commands above
        command, env=environment, stdout=output or subprocess.DEVNULL, stderr=subprocess.STDOUT
    ) as process:
        if core is not None:
            os.sched_setaffinity(process.pid, {core})  # before it starts threads
        try:
            _wait(process, f"http://127.0.0.1:{port}")
            yield Process(process.pid, f"ws://127.0.0.1:{port}")
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait(process: subprocess.Popen[bytes], address: str) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"the server ended with status {process.returncode}: {process.args}")
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=20):  # noqa: S310 -- http
                return
        except (urllib.error.URLError, TimeoutError):
            pass
        time.sleep(0.3)
    raise SystemExit(f"the server was not ready in {_READY_SECONDS:g} s: {process.args}")
