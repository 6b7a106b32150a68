"""The command that this distribution adds to ``wlk-core``."""

from __future__ import annotations

from wlk_core.plugins import CommandSpec, hookimpl


@hookimpl
def wlk_commands() -> list[CommandSpec]:
    """Return the command ``wlk-core serve``."""
    return [CommandSpec(name="serve", api=1, load="wlk_serve.cli:serve")]
