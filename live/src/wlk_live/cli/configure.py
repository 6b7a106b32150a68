"""The command ``config``: where config.toml is, what is set, and how to change it."""

from __future__ import annotations

import os

import click

from wlk_core.cli.main import registry_of
from wlk_core.cli.terminal import echo
from wlk_live.config import OPTION_VARIABLE, config_path, read_config, set_value


@click.group()
def config() -> None:
    """
    Show or change the defaults of transcribe and other commands.

    They are stored in config.toml.  Environment variables (WLK_BACKEND, WLK_MODEL, WLK_LANGUAGE,
    WLK_OPTION_<NAME>) override that file, and flags override both.
    """


@config.command()
def path() -> None:
    """Print the path of config.toml, which need not exist."""
    echo(config_path())


@config.command()
def show() -> None:
    """Print config.toml below its path, and the environment variables that override it."""
    read_config()  # raises if the file has a mistake
    path = config_path()
    text = path.read_text(encoding="utf-8-sig").rstrip() if path.exists() else None
    echo(f"# {path} does not exist" if text is None else f"# {path}\n{text}")
    variables = ("WLK_BACKEND", "WLK_MODEL", "WLK_LANGUAGE", OPTION_VARIABLE)
    for variable, value in sorted(os.environ.items()):
        if value and variable.startswith(variables):
            echo(f"# {variable}={value}")


@config.command("set")
@click.argument("key")
@click.argument("value")
def set_(*, key: str, value: str) -> None:
    """
    Set KEY to VALUE in config.toml; the rest of the file stays as it is.

    KEY is backend, model, language, filters (names of text filters, with commas) or
    options.NAME.OPTION, of a backend or a text filter.
    """
    changed = set_value(key, value, registry_of())
    echo(f"{key} is {value} in {changed}")
