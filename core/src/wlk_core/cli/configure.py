"""The command ``config``: where config.toml is, what is set, and how to change it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import click

from wlk_core.cli.main import registry_of
from wlk_core.cli.tables import table
from wlk_core.cli.terminal import echo
from wlk_core.config import (
    OPTION_VARIABLE,
    OPTIONS,
    TEXT_KEYS,
    VARIABLES,
    check_config,
    config_path,
    read_config,
    set_value,
    unset_value,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wlk_core.config import ConfigFile

    _Row = tuple[str, object, int | None]  # a key or variable, its value and its line


@click.group(short_help="Show or change the defaults in config.toml.", no_args_is_help=False)
def config() -> None:
    """
    Show or change the defaults of transcribe and other commands.

    They stand in config.toml.  A variable (WLK_BACKEND, WLK_MODEL, WLK_LANGUAGE,
    WLK_OPTION_<NAME>) precedes that file, and a flag precedes both.
    """


@config.command()
def path() -> None:
    """Print the path of config.toml, which need not exist."""
    echo(config_path())


@config.command()
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@click.pass_context
def show(context: click.Context, *, as_json: bool) -> None:
    """Print every value that is set, and where; check those of installed backends."""
    settings = read_config()
    rows = [*_file_rows(settings), *_variable_rows()]
    if as_json:
        described = [{"key": key, "value": value, "line": line} for key, value, line in rows]
        echo(json.dumps({"path": str(settings.path), "values": described}, indent=2))
    else:
        exists = "" if settings.path.exists() else "  (does not exist)"
        echo(f"{settings.path}{exists}")
        if rows:
            echo(table((key, _text(value), _source(line)) for key, value, line in rows))
    check_config(settings, registry_of(context))


@config.command("set")
@click.argument("key")
@click.argument("value")
@click.pass_context
def set_(context: click.Context, *, key: str, value: str) -> None:
    """
    Set KEY to VALUE in config.toml; the rest of the file stays as it is.

    KEY is backend, model, language or options.BACKEND.OPTION, such as options.NAME.device.
    """
    changed = set_value(key, value, registry_of(context))
    echo(f"{key} is {value} in {changed}")


@config.command()
@click.argument("key")
def unset(*, key: str) -> None:
    """Remove KEY from config.toml."""
    changed = unset_value(key)
    echo(f"{key} is not set in {changed} any more")


def _file_rows(settings: ConfigFile) -> Iterator[_Row]:
    for name in TEXT_KEYS:
        if value := getattr(settings, name):
            yield name, value, settings.line(name)
    for backend, options in settings.options.items():
        for name, value in options.items():
            line = settings.line(OPTIONS, backend, name)
            yield f"{OPTIONS}.{backend}.{name}", value, line


def _variable_rows() -> Iterator[_Row]:
    for variable, value in sorted(os.environ.items()):
        if value and (variable in VARIABLES or variable.startswith(OPTION_VARIABLE)):
            yield variable, value, None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _source(line: int | None) -> str:
    return "environment" if line is None else f"line {line}"
