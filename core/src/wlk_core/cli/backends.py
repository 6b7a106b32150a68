"""The commands ``backends`` and ``plugins``: what is installed, and everything about one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs
import click

from wlk_core.cli.doctor import check_backend, load_here, plugin_rows
from wlk_core.cli.main import registry_of
from wlk_core.cli.terminal import echo, paragraph, table
from wlk_core.config import choose_settings
from wlk_core.errors import BackendUnavailable, WLKError
from wlk_core.registry import known_backends, missing_requirements

if TYPE_CHECKING:
    from wlk_core.backend import BackendSpec
    from wlk_core.options import Option
    from wlk_core.registry import Registry

__all__ = ["backends", "described_option", "install_hint", "option_lines", "plugins"]

_OPTION = 22  # columns of the longest usual option with its kind


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

    A star marks the backend that is used where none is named.  The list is read from package
    metadata and the plugins' declarations: no framework is imported, except by --check.
    """
    registry = registry_of(context)
    if check_here is not None:
        return load_here(registry, check_here)
    if check is not None:
        result = check_backend(registry.spec(check))
        row = {"name": check, "ok": not result.error, "model": result.model, "error": result.error}
        detail = f"; {result.detail}" if result.detail else ""
        line = f"{check}: loaded model {result.model} and ran it ({result.seconds:.1f} s){detail}"
        if as_json or not result.error:
            echo(json.dumps(row, indent=2) if as_json else line)
        if result.error:
            raise BackendUnavailable(result.error)
    elif name is not None:
        spec = registry.spec(name)
        described = json.dumps(_described(spec, registry), indent=2)
        echo(described if as_json else _details(spec, registry))
    elif as_json:
        echo(json.dumps([_described(spec, registry) for spec in registry.specs()], indent=2))
    else:
        echo(_summary(registry) if registry.specs() else install_hint())
        if broken := [row["name"] for row in plugin_rows(registry) if row["error"]]:
            echo(f"left out: {', '.join(broken)} (see: wlk-core plugins)")
    return 0


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@click.pass_context
def plugins(context: click.Context, *, as_json: bool) -> None:
    """List every installed plugin: distribution, version, ok or broken, and why."""
    rows = plugin_rows(registry_of(context))
    if as_json:
        echo(json.dumps(rows, indent=2))
        return
    cells = []
    for row in rows:
        offers = ", ".join([*row["backends"], *(f"command {name}" for name in row["commands"])])
        cells.append((row["name"], row["version"], row["status"], row["error"] or offers))
    echo(table(cells) or install_hint())


def install_hint() -> str:
    """Return what an installation without plugins prints in place of a list."""
    command = next(iter(known_backends().values()))
    return (
        "no backend is installed: wlk-core carries no model of its own.\n"
        f"Install one, for example: {command}"
    )


def option_lines(spec: BackendSpec) -> list[tuple[str, str]]:
    """Return each option as KEY=KIND and what help is there about it."""
    lines = []
    for option in spec.all_options:
        facts = []
        if option.choices:
            facts.append(f"one of: {', '.join(map(str, option.choices))}")
        if option.policies:
            facts.append(f"policy: {', '.join(option.policies)}")
        facts.append(f"default: {option.default_text}")
        head = f"{option.name}={option.type.__name__.upper()}"
        lines.append((head, f"{option.help} ({'; '.join(facts)})"))
    return lines


def _state(spec: BackendSpec) -> str:
    missing = missing_requirements(spec)
    return f"needs {', '.join(missing)}" if missing else "installed"


def _summary(registry: Registry) -> str:
    try:
        default = choose_settings(registry).spec.name
    except WLKError:  # a mistake in config.toml is for the commands that use it
        default = None
    rows = [
        (
            f"{spec.name}*" if spec.name == default else spec.name,
            _state(spec),
            spec.default_model or "",
            spec.summary,
        )
        for spec in registry.specs()
    ]
    listed = table([("BACKEND", "STATE", "MODEL", "SUMMARY"), *rows])
    return f"{listed}\n\nmore about one: wlk-core backends {rows[0][0].rstrip('*')}"


def _described(spec: BackendSpec, registry: Registry) -> dict[str, Any]:
    """Return a backend as the JSON that scripts rely on."""
    owner = registry.owner(spec.name)
    missing = missing_requirements(spec)
    return {
        **_fields(spec, without={"load", "requires", "model_files", "digit_models"}),
        "distribution": owner.distribution,
        "version": owner.version,
        "installed": not missing,
        "missing": [
            {"distribution": name, "install": command} for name, command in missing.items()
        ],
        "capabilities": sorted(spec.capabilities),
        "options": [described_option(option) for option in spec.all_options],
    }


def described_option(option: Option) -> dict[str, Any]:
    """Return an option as the JSON that scripts rely on."""
    hidden = {"former_names", "is_auto_allowed"}
    return _fields(option, without=hidden) | {"type": option.type.__name__}


def _fields(record: Any, *, without: set[str]) -> dict[str, Any]:
    return attrs.asdict(
        record, recurse=False, filter=lambda field, _value: field.name not in without
    )


def _details(spec: BackendSpec, registry: Registry) -> str:
    models = [f"{name}*" if name == spec.default_model else name for name in spec.models]
    count = f"{len(spec.languages)}: " if spec.languages else ""
    facts = [
        *(("install", command) for command in dict.fromkeys(missing_requirements(spec).values())),
        ("models", ", ".join(models)),
        ("", f"sizes and licences: wlk-core models --backend {spec.name}"),
        ("policies", ", ".join(spec.policies)),
        ("languages", count + ", ".join(spec.languages)),
        ("capabilities", ", ".join(sorted(spec.capabilities))),
    ]
    lines = option_lines(spec)
    return "\n".join(
        [
            f"{spec.name}  ({registry.owner(spec.name).title})  {_state(spec)}",
            paragraph("", spec.summary, width=0),
            *(paragraph(label, text) for label, text in facts if text),
            *(["  options"] if lines else []),
            *(paragraph(*line, indent=4, width=_OPTION) for line in lines),
        ]
    )
