"""The command ``doctor``: what is installed, what works, and what to type next."""

from __future__ import annotations

from importlib import metadata
import platform
import sys
from typing import TYPE_CHECKING

import click

from wlk_core.cli.backends import check_backend, listing
from wlk_core.cli.main import registry_of
from wlk_core.cli.terminal import echo, print_error, table
from wlk_core.errors import WLKError
from wlk_core.models import cache_directory
from wlk_core.registry import known_plugins, missing_requirements
from wlk_live.config import choose_settings, config_path

if TYPE_CHECKING:
    from wlk_core.registry import Registry


@click.command()
@click.option("--fast", is_flag=True, help="Only read what is installed; load no backend.")
def doctor(*, fast: bool) -> int:
    """
    Report versions, backends and their devices, the model cache, and what to type next.

    Each installed backend is loaded in a process of its own, with the smallest model at hand and
    without the network, for at most five minutes; --fast skips this.  The exit status is 1 if no
    backend can be used, or something that is installed is broken.
    """
    registry = registry_of()
    specs = registry.specs()  # without those that two distributions offer
    usable = [spec for spec in registry.usable() if spec in specs]
    checked = [] if fast else usable
    if checked and sys.stderr.isatty():
        echo(f"loading {', '.join(spec.name for spec in checked)} ...", err=True)
    results = {spec.name: check_backend(spec) for spec in checked}
    broken = [name for name, (state, _) in results.items() if state == "broken"]
    is_any_usable = len(broken) < len(usable)

    python = f"Python {platform.python_version()}, {platform.platform()}"
    facts = [
        ("wlk-core", f"{metadata.version('wlk-core')}, {python}"),
        ("plugins", ", ".join(plugin.title for plugin in registry.plugins()) or "none"),
        ("config", f"{config_path()}{'' if config_path().exists() else ' (does not exist)'}"),
        ("models", str(cache_directory())),
    ]
    next_command = "wlk-core demo" if is_any_usable else _first_install(registry)
    default = _default(registry)
    echo(f"{table(facts)}\n\n{listing(registry, default, results)}\n\nnext  {next_command}")
    has_faults = any(registry.fault(plugin) is not None for plugin in registry.plugins())
    return 0 if default and is_any_usable and not broken and not has_faults else 1


def _first_install(registry: Registry) -> str:
    """Return the command that makes an installed backend usable, or that installs one."""
    for spec in registry.specs():
        if missing := missing_requirements(spec):
            return next(iter(missing.values()))
    return next(iter(known_plugins("backend").values()))


def _default(registry: Registry) -> str | None:
    """Return the default backend's name, or None, after printing any mistake in the settings."""
    try:
        return choose_settings(registry).spec.name
    except WLKError as error:
        if registry.specs():
            print_error(error)
        return None
