"""The commands ``backends`` and ``plugins``: what is installed, and what works."""

from __future__ import annotations

from itertools import chain
import json
import logging
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import attrs
import click

from wlk_core.backend import BackendSpec
from wlk_core.cli.main import registry_of
from wlk_core.cli.options import complete
from wlk_core.cli.terminal import echo, print_error, table
from wlk_core.errors import BackendUnavailable, ModelNotFoundError, WLKError
from wlk_core.options import ModelSpec
from wlk_core.registry import missing_requirements, no_backend

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wlk_core.options import Option, PluginSpec
    from wlk_core.registry import Registry

_TIME_LIMIT_SECONDS = 300.0  # a cold import of torch from a slow disk takes 100
_NO_MODEL = 3  # exit status of the checking process if only the model is missing


@click.command()
@click.argument("name", required=False, shell_complete=complete)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@click.option(
    "--check", metavar="NAME", help="Load this backend and run its model, in a process of its own."
)
@click.option("--check-here", metavar="NAME", hidden=True)
def backends(*, name: str | None, as_json: bool, check: str | None, check_here: str | None) -> int:
    """
    List the backends, one per line; with NAME, its models, languages, policies and options.

    Diarizers, translators and turn detectors are listed below them, and NAME may be one of those.
    A star marks the backend that is used if neither a flag nor the configuration names one.  The
    list is read from package metadata and the plugins'
    declarations: no framework is imported, except by --check.
    """
    registry = registry_of()
    if check_here is not None:
        return _load_here(registry, check_here)
    if check is not None:
        spec = registry.spec(check)
        state, note = check_backend(spec)
        error = None if state == "works" else note
        row = {"name": check, "ok": not error, "model": _smallest_model(spec), "error": error}
        if as_json or not error:
            echo(json.dumps(row, indent=2) if as_json else f"{check} works: {note}")
        if error:
            raise BackendUnavailable(f"backend {check} cannot be used: {error}")
    elif as_json:
        specs = [registry.model_spec(name)] if name else registry.specs()
        described = [_described(spec, registry) for spec in specs]
        echo(json.dumps(described[0] if name else described, indent=2, default=dict))
    elif name:
        echo(_details(registry.model_spec(name), registry))
    else:
        echo(listing(registry, _default(registry), {}))
    return 0


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def plugins(*, as_json: bool) -> None:
    """List every installed plugin: distribution, version, ok or broken, and why."""
    registry = registry_of()
    faults = [(plugin, registry.fault(plugin)) for plugin in registry.plugins()]
    if as_json:
        rows = [
            {
                "name": plugin.distribution,
                "version": plugin.version,
                "status": "broken" if fault else "ok",
                "offers": [{"kind": spec.kind, "name": spec.name} for spec in plugin.specs],
                "error": fault,
            }
            for plugin, fault in faults
        ]
        echo(json.dumps(rows, indent=2))
        return
    cells = [
        (plugin.title, "broken" if fault else "ok", fault or ", ".join(map(_offer, plugin.specs)))
        for plugin, fault in faults
    ]
    echo(table(cells) or no_backend())


def _offer(spec: PluginSpec) -> str:
    return spec.name if isinstance(spec, ModelSpec) else f"{spec.kind} {spec.name}"


def _default(registry: Registry) -> str | None:
    """Return the default backend's name; None, after printing why, if there is none."""
    try:
        return registry.default_backend().name
    except WLKError as error:
        if registry.specs():
            print_error(error)
        return None


def listing(registry: Registry, default: str | None, results: Mapping[str, tuple[str, str]]) -> str:
    """Return tables of what plugins offer; *results* are those of the checks, by backend."""
    backends, others = [], []
    for spec in chain.from_iterable(plugin.specs for plugin in registry.plugins()):
        if not isinstance(spec, ModelSpec):
            continue  # a command or protocol, which `plugins` lists
        if isinstance(spec, BackendSpec):
            state, note = results.get(spec.name) or _state(spec)
            star = "*" if spec.name == default else ""
            backends.append((spec.name + star, state, spec.default_model or "", note))
        else:
            others.append((spec.name, spec.kind, *_state(spec)))
    head = ("BACKEND", "STATE", "MODEL", "SUMMARY")
    parts = [table([head, *sorted(backends)]) if backends else no_backend()]
    if others:
        parts.append(table([("ANNOTATOR", "KIND", "STATE", "SUMMARY"), *sorted(others)]))
    faults = {plugin.distribution: registry.fault(plugin) for plugin in registry.plugins()}
    parts += [f"plugin {name} is broken: {fault}" for name, fault in faults.items() if fault]
    return "\n\n".join(parts)


def _state(spec: ModelSpec) -> tuple[str, str]:
    """Return whether *spec* is usable, and its summary or the commands that install the rest."""
    if missing := missing_requirements(spec):
        return f"needs {', '.join(missing)}", " && ".join(dict.fromkeys(missing.values()))
    return "installed", spec.summary


def _described(spec: ModelSpec, registry: Registry) -> dict[str, Any]:
    """Return a backend or an annotator as plain data for JSON, which scripts rely on."""
    owner = next(plugin for plugin in registry.plugins() if spec in plugin.specs)
    missing = missing_requirements(spec)
    return {
        **attrs.asdict(
            spec,
            recurse=False,
            filter=attrs.filters.exclude("load", "requires", "model_files", "digit_models"),
        ),
        "distribution": owner.distribution,
        "version": owner.version,
        "installed": not missing,
        "missing": [
            {"distribution": name, "install": command} for name, command in missing.items()
        ],
        "capabilities": sorted(getattr(spec, "capabilities", ())),
        "options": [
            attrs.asdict(
                option,
                recurse=False,
                filter=attrs.filters.exclude("former_names", "is_auto_allowed"),
            )
            | {"type": option.type.__name__}
            for option in getattr(spec, "all_options", spec.options)
        ],
    }


def _details(spec: ModelSpec, registry: Registry) -> str:
    state, note = _state(spec)
    described = _described(spec, registry)
    lists = ("models", "policies", "languages", "capabilities")
    facts = [("  state", state if note == spec.summary else f"{state}: {note}")]
    facts += [(f"  {name}", ", ".join(described[name])) for name in lists if described.get(name)]
    title = f"{spec.name}  ({described['distribution']} {described['version']})"
    page = [title, f"  {spec.summary}", table(facts)]
    if options := getattr(spec, "all_options", spec.options):
        page += ["  options", table(map(_option_row, options))]
    return "\n".join(page)


def _option_row(option: Option) -> tuple[str, str]:
    facts = [f"default: {option.default_text}"]
    if option.policies:
        facts.insert(0, f"policy: {', '.join(option.policies)}")
    if option.choices:
        facts.insert(0, f"one of: {', '.join(map(str, option.choices))}")
    head = f"    {option.name}={option.type.__name__.upper()}"
    return head, f"{option.help} ({'; '.join(facts)})"


def check_backend(spec: BackendSpec) -> tuple[str, str]:
    """Run the backend in another process, without the network; return its state and the reason."""
    # Not in this process, which a framework that was built for another processor would crash.
    start = time.perf_counter()
    try:
        process = subprocess.run(  # noqa: S603 -- this program itself
            [sys.executable, "-m", "wlk_core", "backends", "--check-here", spec.name],
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIME_LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return "broken", f"it did not load within {error.timeout:.0f} seconds"
    status = process.returncode
    if status == 0:
        took = f"model {_smallest_model(spec)} took {time.perf_counter() - start:.1f} s"
        return "works", "; ".join([*process.stdout.strip().splitlines()[-1:], took])
    if status < 0:
        return "broken", f"it crashed its process: {signal.strsignal(-status)}"
    lines = [line for line in process.stderr.splitlines() if line.startswith("wlk-core: ")]
    reason = lines[-1].removeprefix("wlk-core: ") if lines else process.stderr.strip()[-200:]
    reason = reason.removeprefix(f"backend {spec.name} cannot be used: ")
    return ("no model" if status == _NO_MODEL else "broken"), reason or f"it ended with {status}"


def _load_here(registry: Registry, name: str) -> int:
    # What the plugin logs about the loaded model, such as its device, is shown with the result.
    spec = registry.spec(name)
    logger = logging.getLogger(spec.load.partition(":")[0].partition(".")[0])
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(logging.StreamHandler(sys.stdout))
    try:
        with registry.load_backend(name, _smallest_model(spec)) as backend:
            backend.warmup()
    except ModelNotFoundError as error:
        print_error(error)
        return _NO_MODEL
    return 0


def _smallest_model(spec: BackendSpec) -> str | None:
    return "digits" if "digits" in spec.models else spec.default_model
