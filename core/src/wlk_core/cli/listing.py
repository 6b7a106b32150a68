"""What is installed: the commands ``plugins`` and ``backends``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from wlk_core.cli.main import registry_of
from wlk_core.cli.tables import paragraph, table
from wlk_core.registry import missing_requirements

if TYPE_CHECKING:
    from wlk_core.backend import BackendSpec
    from wlk_core.options import Option
    from wlk_core.registry import Registry

_NONE = (
    "no backend is installed: wlk-core carries no model of its own.\n"
    "Install one, for example: pip install wlk-whisper"
)


@click.command(short_help="List the installed plugins.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@click.pass_context
def plugins(context: click.Context, *, as_json: bool) -> None:
    """List every installed plugin: distribution, version, ok or broken, and why."""
    rows = _plugin_rows(registry_of(context))
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        click.echo(_NONE)
        return
    click.echo(
        table(
            (row["name"], row["version"], row["status"], row["error"] or ", ".join(row["backends"]))
            for row in rows
        )
    )


@click.command(short_help="List the backends.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@click.option("--check", metavar="NAME", help="Really load this backend, in another process.")
@click.option("--check-here", metavar="NAME", hidden=True)
@click.pass_context
def backends(
    context: click.Context, *, as_json: bool, check: str | None, check_here: str | None
) -> None:
    """
    List every backend: what it needs, its models, languages, policies and options.

    Read from package metadata and the plugins' declarations; no framework is imported, except by
    --check, which loads the framework and the smallest model at hand in another process.
    """
    registry = registry_of(context)
    if check is not None or check_here is not None:
        from wlk_core.cli import check as checks  # noqa: PLC0415 -- rarely used

        if check_here is not None:
            checks.load_here(registry, check_here)
        else:
            checks.load_elsewhere(registry, check or "", as_json=as_json)
        return
    specs = registry.specs()
    if as_json:
        click.echo(json.dumps([_described(spec, registry) for spec in specs], indent=2))
        return
    click.echo("\n\n".join(_block(spec, registry) for spec in specs) or _NONE)
    broken = [row for row in _plugin_rows(registry) if row["error"]]
    if broken:
        click.echo(
            f"\nleft out: {', '.join(row['name'] for row in broken)} (see: wlk-core plugins)"
        )


def _plugin_rows(registry: Registry) -> list[dict[str, Any]]:
    conflicts = registry.conflicts()
    rows = []
    for plugin in registry.plugins():
        names = [spec.name for spec in plugin.backends]
        error = plugin.error or next(
            (
                f"backend {name!r} is offered by {' and '.join(conflicts[name])}: uninstall one"
                for name in names
                if name in conflicts
            ),
            None,
        )
        rows.append(
            {
                "name": plugin.distribution,
                "version": plugin.version,
                "status": "broken" if error else "ok",
                "backends": names,
                "error": error,
            }
        )
    return rows


def _described(spec: BackendSpec, registry: Registry) -> dict[str, Any]:
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
        "options": [_option(option) for option in spec.all_options],
        "max_delay": spec.max_delay,
        "bounds": dict(spec.bounds),
        "thread_affinity": spec.thread_affinity,
        "deviations": dict(spec.deviations),
        "preference": spec.preference,
    }


def _option(option: Option) -> dict[str, Any]:
    return {
        "name": option.name,
        "type": option.type.__name__,
        "default": option.default,
        "choices": list(option.choices),
        "minimum": option.minimum,
        "maximum": option.maximum,
        "scope": option.scope,
        "help": option.help,
    }


def _block(spec: BackendSpec, registry: Registry) -> str:
    missing = missing_requirements(spec)
    owner = registry.owner(spec.name)
    state = "installed" if not missing else f"needs {', '.join(missing)}"
    lines = [
        f"{spec.name}  ({owner.title})  {state}",
        paragraph("", spec.summary, width=0),
    ]
    lines += [paragraph("install", command) for command in dict.fromkeys(missing.values())]
    models = [f"{name}*" if name == spec.default_model else name for name in spec.models]
    facts = {
        "models": ", ".join(models),
        "policies": ", ".join(spec.policies),
        "languages": _languages(spec),
        "can do": ", ".join(sorted(spec.capabilities)),
    }
    lines += [paragraph(label, text) for label, text in facts.items() if text]
    lines += [paragraph(*_option_line(option)) for option in spec.all_options]
    return "\n".join(lines)


def _languages(spec: BackendSpec) -> str:
    if not spec.languages:
        return ""
    return f"{len(spec.languages)}: {', '.join(spec.languages)}"


def _option_line(option: Option) -> tuple[str, str]:
    default = "" if option.default is None else f" [default: {option.default}]"
    choices = f" (one of: {', '.join(map(str, option.choices))})" if option.choices else ""
    kind = option.type.__name__.upper()
    return "option", f"{option.name}={kind}  {option.help}{choices}{default}"
