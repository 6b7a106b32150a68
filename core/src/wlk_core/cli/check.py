"""Really load a backend, in a process of its own: a framework that crashes takes only that."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import click

from wlk_core.errors import BackendUnavailable

if TYPE_CHECKING:
    from wlk_core.backend import BackendSpec
    from wlk_core.registry import Registry

__all__ = ["load_elsewhere", "load_here"]

_PATIENCE = 600.0  # seconds; a cold import of torch from a slow disk takes one of them a hundred


def load_here(registry: Registry, name: str) -> None:
    """Load the backend in this process and run its model once."""
    model = _model(registry.spec(name))
    with registry.load_backend(name, model) as backend:
        backend.warmup()


def load_elsewhere(registry: Registry, name: str, *, as_json: bool) -> None:
    """
    Load the backend in another process, without the network, and say how that went.

    Raises:
        BackendUnavailable: it did not load, with the reason the other process gave.

    """
    model = _model(registry.spec(name))
    began = time.perf_counter()
    try:
        finished = subprocess.run(  # noqa: S603 -- this very program
            [sys.executable, "-m", "wlk_core", "backends", "--check-here", name],
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )
        error = _failure(name, finished)
    except subprocess.TimeoutExpired:
        error = f"backend {name} did not load within {_PATIENCE:.0f} seconds"
    if as_json:
        click.echo(
            json.dumps(
                {"name": name, "ok": error is None, "model": model, "error": error}, indent=2
            )
        )
    if error is not None:
        raise BackendUnavailable(error)
    if not as_json:
        seconds = time.perf_counter() - began
        click.echo(f"{name}: loaded model {model} and ran it ({seconds:.1f} s)")


def _model(spec: BackendSpec) -> str | None:
    return "digits" if "digits" in spec.models else spec.default_model


def _failure(name: str, finished: subprocess.CompletedProcess[str]) -> str | None:
    if finished.returncode == 0:
        return None
    if finished.returncode < 0:
        how = signal.Signals(-finished.returncode).name
        return f"backend {name} crashed its process ({how}): its framework does not suit this CPU"
    lines = [line for line in finished.stderr.splitlines() if line.startswith("wlk-core: ")]
    reason = lines[-1].removeprefix("wlk-core: ") if lines else finished.stderr.strip()[-200:]
    return reason or f"backend {name} ended its process with status {finished.returncode}"
