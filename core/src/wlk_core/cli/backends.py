"""The command ``backends``: a line for each, or everything about one."""

from __future__ import annotations

from contextlib import suppress
import json
from typing import TYPE_CHECKING, Any

import click

from wlk_core.cli.main import registry_of
from wlk_core.cli.plugins import install_hint, plugin_rows
from wlk_core.cli.tables import lines, paragraph
from wlk_core.cli.terminal import echo
from wlk_core.config import choose_settings
from wlk_core.errors import WLKError
from wlk_core.registry import missing_requirements

if TYPE_CHECKING:
    from wlk_core.backend import BackendSpec
    from wlk_core.options import Option
    from wlk_core.registry import Registry

__all__ = ["backends", "option_lines", "state_of"]


@click.command(short_help="List the backends.")
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
    if check is not None or check_here is not None:
        from wlk_core.cli import check as checks  # noqa: PLC0415 -- rarely used

        if check_here is not None:
            return checks.load_here(registry, check_here)
        checks.report(registry, check or "", as_json=as_json)
        return 0
    if name is not None:
        spec = registry.spec(name)
        described = json.dumps(_described(spec, registry), indent=2)
        echo(described if as_json else _details(spec, registry))
        return 0
    specs = registry.specs()
    if as_json:
        echo(json.dumps([_described(spec, registry) for spec in specs], indent=2))
        return 0
    echo(_summary(registry) if specs else install_hint())
    broken = [row["name"] for row in plugin_rows(registry) if row["error"]]
    if broken:
        echo(f"left out: {', '.join(broken)} (see: wlk-core plugins)")
    return 0


def state_of(spec: BackendSpec) -> str:
    """Return whether a backend is installed, or what it needs."""
    missing = missing_requirements(spec)
    return f"needs {', '.join(missing)}" if missing else "installed"


def option_lines(spec: BackendSpec) -> list[tuple[str, str]]:
    """Return each option as KEY=KIND and what help is there about it."""
    return [_option_line(option) for option in spec.all_options]


def _summary(registry: Registry) -> str:
    default = _default(registry)
    rows = [
        (
            f"{spec.name}*" if spec.name == default else spec.name,
            state_of(spec),
            spec.default_model or "",
            ", ".join(spec.policies),
            spec.summary,
        )
        for spec in registry.specs()
    ]
    head = ("BACKEND", "STATE", "MODEL", "POLICIES", "SUMMARY")
    listed = lines([head, *rows], optional=head.index("POLICIES"))
    return f"{listed}\n\nmore about one: wlk-core backends {rows[0][0].rstrip('*')}"


def _default(registry: Registry) -> str | None:
    """Return the backend that commands use where none is named."""
    try:
        return choose_settings(registry).spec.name
    except WLKError:  # a mistake in config.toml is for the commands that use it
        with suppress(WLKError):
            return registry.default_backend().name
        return None


def _described(spec: BackendSpec, registry: Registry) -> dict[str, Any]:
    """Return a backend as the JSON that scripts rely on."""
    owner = registry.owner(spec.name)
    missing = missing_requirements(spec)
    return {
        "name": spec.name,
        "summary": spec.summary,
        "distribution": owner.distribution,
        "version": owner.version,
        "api": spec.api,
        "installed": not missing,
        "missing": [
            {"distribution": name, "install": command} for name, command in missing.items()
        ],
        "policies": list(spec.policies),
        "languages": list(spec.languages),
        "models": dict(spec.models),
        "default_model": spec.default_model,
        "capabilities": sorted(spec.capabilities),
        "options": [_described_option(option) for option in spec.all_options],
        "max_delay": spec.max_delay,
        "bounds": dict(spec.bounds),
        "thread_affinity": spec.thread_affinity,
        "max_concurrent_calls": spec.max_concurrent_calls,
        "deviations": dict(spec.deviations),
        "preference": spec.preference,
    }


def _described_option(option: Option) -> dict[str, Any]:
    return {
        "name": option.name,
        "type": option.type.__name__,
        "default": option.default,
        "choices": list(option.choices),
        "minimum": option.minimum,
        "maximum": option.maximum,
        "scope": option.scope,
        "policies": list(option.policies),
        "help": option.help,
    }


def _details(spec: BackendSpec, registry: Registry) -> str:
    owner = registry.owner(spec.name)
    parts = [
        f"{spec.name}  ({owner.title})  {state_of(spec)}",
        paragraph("", spec.summary, width=0),
    ]
    commands = dict.fromkeys(missing_requirements(spec).values())
    parts += [paragraph("install", command) for command in commands]
    models = [f"{name}*" if name == spec.default_model else name for name in spec.models]
    facts = {
        "models": ", ".join(models),
        "policies": ", ".join(spec.policies),
        "languages": _languages(spec),
        "capabilities": ", ".join(sorted(spec.capabilities)),
    }
    parts += [paragraph(label, text) for label, text in facts.items() if text]
    if spec.all_options:
        parts.append("  options")
        parts += [paragraph(*line, indent=4, width=_OPTION) for line in option_lines(spec)]
    return "\n".join(parts)


_OPTION = 22  # columns of the longest usual option with its kind


def _languages(spec: BackendSpec) -> str:
    if not spec.languages:
        return ""
    return f"{len(spec.languages)}: {', '.join(spec.languages)}"


def _option_line(option: Option) -> tuple[str, str]:
    facts = []
    if option.choices:
        facts.append(f"one of: {', '.join(map(str, option.choices))}")
    if option.policies:
        facts.append(f"policy: {', '.join(option.policies)}")
    facts.append(f"default: {option.default_text}")
    return f"{option.name}={option.type.__name__.upper()}", f"{option.help} ({'; '.join(facts)})"
