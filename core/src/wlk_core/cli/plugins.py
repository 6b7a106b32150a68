"""The command ``plugins``: the installed distributions that offer backends and commands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from wlk_core.cli.main import registry_of
from wlk_core.cli.tables import table
from wlk_core.cli.terminal import echo
from wlk_core.registry import known_backends

if TYPE_CHECKING:
    from wlk_core.registry import Registry

__all__ = ["install_hint", "plugin_rows", "plugins"]


@click.command(short_help="List the installed plugins.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@click.pass_context
def plugins(context: click.Context, *, as_json: bool) -> None:
    """List every installed plugin: distribution, version, ok or broken, and why."""
    rows = plugin_rows(registry_of(context))
    if as_json:
        echo(json.dumps(rows, indent=2))
        return
    if not rows:
        echo(install_hint())
        return
    echo(
        table(
            (row["name"], row["version"], row["status"], row["error"] or _offers(row))
            for row in rows
        )
    )


def install_hint() -> str:
    """Return what an installation without plugins prints in place of a list."""
    command = next(iter(known_backends().values()))
    return (
        "no backend is installed: wlk-core carries no model of its own.\n"
        f"Install one, for example: {command}"
    )


def plugin_rows(registry: Registry) -> list[dict[str, Any]]:
    """Return every plugin as the JSON that scripts rely on."""
    return [
        {
            "name": plugin.distribution,
            "version": plugin.version,
            "status": "broken" if error else "ok",
            "backends": [spec.name for spec in plugin.backends],
            "commands": [spec.name for spec in plugin.commands],
            "error": error,
        }
        for plugin in registry.plugins()
        for error in [registry.fault(plugin)]
    ]


def _offers(row: dict[str, Any]) -> str:
    return ", ".join([*row["backends"], *(f"command {name}" for name in row["commands"])])
