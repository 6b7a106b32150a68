"""Load a backend in a process of its own, because a framework that crashes takes its process."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import attrs

from wlk_core.cli.terminal import echo, print_error
from wlk_core.errors import BackendUnavailable, ModelNotFoundError

if TYPE_CHECKING:
    from wlk_core.backend import BackendSpec
    from wlk_core.registry import Registry

__all__ = ["CheckResult", "check_backend", "load_here", "report"]

_PATIENCE_SECONDS = 600.0  # a cold import of torch from a slow disk takes 100
_NO_MODEL = 3  # exit status of the process where the model is what is missing

_CAUSES = {
    "SIGILL": ": its framework was built for another processor",
    "SIGKILL": ": the system stopped it, most likely because memory ran out",
}


@attrs.frozen(kw_only=True)
class CheckResult:
    """
    How loading a backend and running its model went.

    Attributes:
        model: the model that was loaded.
        error: why it failed, None where it works.
        has_model: whether there was a model to load.
        detail: what the plugin logged about the loaded model, such as its device; may be empty.
        seconds: how long it took.

    """

    model: str | None
    error: str | None = None
    has_model: bool = True
    detail: str = ""
    seconds: float = 0.0


class _LastMessage(logging.Handler):
    """Keep the last message of level INFO: loaders log device and dtype."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        if record.levelno == logging.INFO:
            self.text = " ".join(record.getMessage().split())


def load_here(registry: Registry, name: str) -> int:
    """Load the backend in this process, run its model once and print what the plugin logs."""
    spec = registry.spec(name)
    last = _LastMessage()
    logger = logging.getLogger(spec.load.partition(":")[0].partition(".")[0])
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(last)
    try:
        with registry.load_backend(name, _model(spec)) as backend:
            backend.warmup()
    except ModelNotFoundError as error:
        print_error(error)
        return _NO_MODEL
    echo(last.text)
    return 0


def check_backend(spec: BackendSpec, *, timeout_seconds: float = _PATIENCE_SECONDS) -> CheckResult:
    """Load the backend in another process, without the network."""
    model = _model(spec)
    began = time.perf_counter()
    try:
        finished = subprocess.run(  # noqa: S603 -- this very program
            [sys.executable, "-m", "wlk_core", "backends", "--check-here", spec.name],
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        error = f"backend {spec.name} did not load within {timeout_seconds:.0f} seconds"
        return CheckResult(model=model, error=error, seconds=timeout_seconds)
    return CheckResult(
        model=model,
        error=_failure(spec.name, finished),
        has_model=finished.returncode != _NO_MODEL,
        detail="".join(finished.stdout.strip().splitlines()[-1:]),
        seconds=time.perf_counter() - began,
    )


def report(registry: Registry, name: str, *, as_json: bool) -> None:
    """
    Check a backend and print how that went.

    Raises:
        BackendUnavailable: it did not load, with the reason that the other process printed.

    """
    result = check_backend(registry.spec(name))
    if as_json:
        row = {"name": name, "ok": not result.error, "model": result.model, "error": result.error}
        echo(json.dumps(row, indent=2))
    if result.error is not None:
        raise BackendUnavailable(result.error)
    if not as_json:
        detail = f"; {result.detail}" if result.detail else ""
        echo(f"{name}: loaded model {result.model} and ran it ({result.seconds:.1f} s){detail}")


def _model(spec: BackendSpec) -> str | None:
    return "digits" if "digits" in spec.models else spec.default_model


def _failure(name: str, finished: subprocess.CompletedProcess[str]) -> str | None:
    status = finished.returncode
    if status == 0:
        return None
    if status < 0:
        names = {number.value: number.name for number in signal.Signals}
        called = names.get(-status, f"signal {-status}")
        return f"backend {name} crashed its process ({called}){_CAUSES.get(called, '')}"
    lines = [line for line in finished.stderr.splitlines() if line.startswith("wlk-core: ")]
    reason = lines[-1].removeprefix("wlk-core: ") if lines else finished.stderr.strip()[-200:]
    return reason or f"backend {name} ended its process with status {status}"
