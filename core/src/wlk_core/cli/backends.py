"""The commands ``backends``, ``plugins`` and ``doctor``: what is installed, and what works."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from itertools import chain
import json
import logging
import os
import platform
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import attrs
import click

from wlk_core.cli.main import registry_of
from wlk_core.cli.terminal import echo, print_error, table
from wlk_core.config import choose_settings, config_path
from wlk_core.errors import BackendUnavailable, ModelNotFoundError, WLKError
from wlk_core.models import cache_directory, describe_model
from wlk_core.registry import known_plugins, missing_requirements, no_backend

if TYPE_CHECKING:
    from wlk_core.backend import BackendSpec
    from wlk_core.options import Option
    from wlk_core.registry import PluginInfo, Registry, Spec

# A cold import of torch from a slow disk takes 100 s.
_TIME_LIMIT_SECONDS = 300.0
_MAX_PROCESSES = 4  # that load a backend at the same time
_NO_MODEL = 3  # exit status of the process where the model is what is missing
_CAUSES = {
    "SIGILL": ": its framework was built for another processor",
    "SIGKILL": ": the system stopped it, most likely because memory ran out",
}


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@click.option(
    "--check", metavar="NAME", help="Load this backend and run its model, in a process of its own."
)
@click.option("--check-here", metavar="NAME", hidden=True)
@click.pass_context
def backends(
    context: click.Context,
    *,
    name: str | None,
    as_json: bool,
    check: str | None,
    check_here: str | None,
) -> int:
    """
    List the backends, a line for each; with NAME, its models, languages, policies and options.

    Diarizers, translators and turn detectors are listed below them, and NAME may be one of those.
    A star marks the backend that is used where none is named.  The list is read from package
    metadata and the plugins' declarations: no framework is imported, except by --check.
    """
    registry = registry_of(context)
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
    elif name is not None:
        named = registry.model_spec(name)
        described = json.dumps(_described(named, registry), indent=2)
        echo(described if as_json else _details(named, registry))
    elif as_json:
        echo(json.dumps([_described(spec, registry) for spec in registry.specs()], indent=2))
    else:
        echo(_summary(registry) if registry.specs() else no_backend())
        if annotators := _annotators(registry):
            echo(f"\n{annotators}")
        if broken := [row["name"] for row in _plugin_rows(registry) if row["error"]]:
            echo(f"left out: {', '.join(broken)} (see: wlk-core plugins)")
    return 0


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@click.pass_context
def plugins(context: click.Context, *, as_json: bool) -> None:
    """List every installed plugin: distribution, version, ok or broken, and why."""
    rows = _plugin_rows(registry_of(context))
    if as_json:
        echo(json.dumps(rows, indent=2))
        return
    cells = []
    for row in rows:
        offers = ", ".join([*row["backends"], *(f"command {name}" for name in row["commands"])])
        cells.append((row["name"], row["version"], row["status"], row["error"] or offers))
    echo(table(cells) or no_backend())


@click.command()
@click.option("--fast", is_flag=True, help="Load no backend; only read what is installed.")
@click.pass_context
def doctor(context: click.Context, *, fast: bool) -> int:
    """
    Report versions, backends and their devices, the cache of models, and what to type next.

    Each installed backend is loaded in a process of its own, with the smallest model at hand and
    without the network, for at most five minutes; --fast leaves that out.  The exit status is 1 if
    no backend can be used, or something that is installed is broken.
    """
    registry = registry_of(context)
    specs = registry.specs()  # without those that two distributions offer
    usable = [spec for spec in registry.usable() if spec in specs]
    settings = None
    try:
        settings = choose_settings(registry)
    except WLKError as error:
        if specs:
            print_error(error)
    checked = [] if fast else usable
    if checked and sys.stderr.isatty():
        echo(f"loading {', '.join(spec.name for spec in checked)} ...", err=True)
    with ThreadPoolExecutor(_MAX_PROCESSES) as pool:
        found = pool.map(check_backend, checked)
        results = dict(zip([spec.name for spec in checked], found, strict=True))
    rows = {spec.name: results.get(spec.name) or _row(spec) for spec in specs}
    broken = {name for name, (state, _) in rows.items() if state == "broken"}
    works = bool({spec.name for spec in usable} - broken)
    faulty = [row for row in _plugin_rows(registry) if row["error"]]

    default = settings.spec.name if settings else None
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors"
    python = f"Python {platform.python_version()}"
    facts = [
        ("wlk-core", f"{metadata.version('wlk-core')}, {python}, {system}"),
        ("plugins", ", ".join(plugin.title for plugin in registry.plugins()) or "none"),
        ("config", f"{config_path()}{'' if config_path().exists() else ' (does not exist)'}"),
        ("models", str(cache_directory())),
    ]
    cells = [(f"{name}*" if name == default else name, *row) for name, row in rows.items()]
    echo(f"{table(facts)}\n")
    echo(table([("BACKEND", "STATE", ""), *cells] if cells else []))
    if annotators := _annotators(registry):
        echo(f"\n{annotators}")
    echo("".join(f"plugin {row['name']} is broken: {row['error']}\n" for row in faulty))
    steps = ["wlk-core demo"]
    if not works:
        missing = (missing_requirements(spec).values() for spec in specs)
        steps = [next(chain(*missing, known_plugins("backend").values()))]
    elif settings is not None:
        name, model = settings.spec.name, settings.model
        if model and describe_model(model, settings.spec).state in {"absent", "incomplete"}:
            steps.append(f"wlk-core pull {model} --backend {name}")
        steps += ["wlk-core transcribe FILE", f"wlk-core backends {name}"]
    echo(table(("" if number else "next", step) for number, step in enumerate(steps)))
    return 0 if settings and works and not broken and not faulty else 1


def _annotators(registry: Registry) -> str:
    """Return the table of annotators, empty without any."""
    offered = chain.from_iterable(plugin.specs for plugin in registry.plugins())
    specs = [spec for spec in offered if spec.kind != "backend"]
    rows = [(each.name, each.kind, _row(each)[0], each.summary) for each in specs]
    return table([("ANNOTATOR", "KIND", "STATE", "SUMMARY"), *sorted(rows)]) if rows else ""


def _row(spec: Spec) -> tuple[str, str]:
    """Return the state of a plugin in a word, and what to know about it or to type for it."""
    if missing := missing_requirements(spec):
        return f"needs {', '.join(missing)}", " && ".join(dict.fromkeys(missing.values()))
    is_default = getattr(spec, "preference", 0) is not None
    return "installed", "" if is_default else "used only when it is named"


def _plugin_rows(registry: Registry) -> list[dict[str, Any]]:
    """Return every plugin as the JSON that scripts rely on."""
    return [
        {
            "name": plugin.distribution,
            "version": plugin.version,
            "status": "broken" if error else "ok",
            "backends": [spec.name for spec in plugin.backends],
            "commands": list(plugin.commands),
            "error": error,
        }
        for plugin in registry.plugins()
        for error in [registry.fault(plugin)]
    ]


def _summary(registry: Registry) -> str:
    try:
        default = choose_settings(registry).spec.name
    except WLKError:  # a mistake in config.toml is for the commands that use it
        default = None
    rows = [
        (
            f"{spec.name}*" if spec.name == default else spec.name,
            _row(spec)[0],
            spec.default_model or "",
            spec.summary,
        )
        for spec in registry.specs()
    ]
    listed = table([("BACKEND", "STATE", "MODEL", "SUMMARY"), *rows])
    return f"{listed}\n\nmore about one: wlk-core backends {rows[0][0].rstrip('*')}"


def _owner(spec: Spec, registry: Registry) -> PluginInfo:
    return next(plugin for plugin in registry.plugins() if spec in plugin.specs)


def _described(spec: Spec, registry: Registry) -> dict[str, Any]:
    """Return a backend as the JSON that scripts rely on, or an annotator."""
    owner = _owner(spec, registry)
    missing = missing_requirements(spec)
    return {
        **_fields(spec, without={"load", "requires", "model_files", "digit_models"}),
        "distribution": owner.distribution,
        "version": owner.version,
        "installed": not missing,
        "missing": [
            {"distribution": name, "install": command} for name, command in missing.items()
        ],
        "capabilities": sorted(getattr(spec, "capabilities", ())),
        "options": [
            _fields(option, without={"former_names", "is_auto_allowed"})
            | {"type": option.type.__name__}
            for option in getattr(spec, "all_options", spec.options)
        ],
    }


def _fields(record: Any, *, without: set[str]) -> dict[str, Any]:
    return attrs.asdict(
        record, recurse=False, filter=lambda field, _value: field.name not in without
    )


def _details(spec: Spec, registry: Registry) -> str:
    models = [f"{name}*" if name == spec.default_model else name for name in spec.models]
    count = f"{len(spec.languages)}: " if spec.languages else ""
    facts = [
        *(("install", command) for command in dict.fromkeys(missing_requirements(spec).values())),
        ("models", ", ".join(models)),
        ("", f"sizes and licences: wlk-core models --backend {spec.name}" if models else ""),
        ("policies", ", ".join(getattr(spec, "policies", ()))),
        ("languages", count + ", ".join(spec.languages)),
        ("capabilities", ", ".join(sorted(getattr(spec, "capabilities", ())))),
    ]
    page = [
        f"{spec.name}  ({_owner(spec, registry).title})  {_row(spec)[0]}",
        f"  {spec.summary}",
        table((f"  {label}", text) for label, text in facts if text),
    ]
    if options := [_option_line(each) for each in getattr(spec, "all_options", spec.options)]:
        page += ["  options", table((f"    {head}", text) for head, text in options)]
    return "\n".join(filter(None, page))


def _option_line(option: Option) -> tuple[str, str]:
    facts = [f"default: {option.default_text}"]
    if option.policies:
        facts.insert(0, f"policy: {', '.join(option.policies)}")
    if option.choices:
        facts.insert(0, f"one of: {', '.join(map(str, option.choices))}")
    head = f"{option.name}={option.type.__name__.upper()}"
    return head, f"{option.help} ({'; '.join(facts)})"


def check_backend(spec: BackendSpec) -> tuple[str, str]:
    """Run the backend in another process, without the network; return its state, and why."""
    # Not in this process: a framework that was built for another processor ends the one it is in.
    began = time.perf_counter()
    try:
        done = subprocess.run(  # noqa: S603 -- this very program
            [sys.executable, "-m", "wlk_core", "backends", "--check-here", spec.name],
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIME_LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return "broken", f"it did not load within {error.timeout:.0f} seconds"
    status = done.returncode
    if status == 0:
        took = f"model {_smallest_model(spec)} took {time.perf_counter() - began:.1f} s"
        return "works", "; ".join([*done.stdout.strip().splitlines()[-1:], took])
    if status < 0:
        called = {number.value: number.name for number in signal.Signals}.get(-status, str(-status))
        return "broken", f"it crashed its process with signal {called}{_CAUSES.get(called, '')}"
    lines = [line for line in done.stderr.splitlines() if line.startswith("wlk-core: ")]
    reason = lines[-1].removeprefix("wlk-core: ") if lines else done.stderr.strip()[-200:]
    reason = reason.removeprefix(f"backend {spec.name} cannot be used: ")
    return ("no model" if status == _NO_MODEL else "broken"), reason or f"it ended with {status}"


def _load_here(registry: Registry, name: str) -> int:
    # The detail is what the plugin logs about the loaded model, such as its device.
    spec = registry.spec(name)
    handler = logging.StreamHandler(sys.stdout)
    handler.addFilter(lambda record: record.levelno == logging.INFO)
    logger = logging.getLogger(spec.load.partition(":")[0].partition(".")[0])
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        with registry.load_backend(name, _smallest_model(spec)) as backend:
            backend.warmup()
    except ModelNotFoundError as error:
        print_error(error)
        return _NO_MODEL
    return 0


def _smallest_model(spec: BackendSpec) -> str | None:
    return "digits" if "digits" in spec.models else spec.default_model
