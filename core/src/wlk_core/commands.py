"""The declaration of a subcommand of ``wlk-core`` by a plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from wlk_core.options import LOADER, NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["COMMAND_PREFIX", "CommandSpec"]

COMMAND_PREFIX = "command."  #: of entry points of commands, so that no other plugin is imported


@attrs.frozen(kw_only=True)
class CommandSpec:
    """
    A command that ``wlk-core`` has while its distribution is installed.

    The hook `wlk_commands` returns such specs.  The entry point of the command NAME is called
    "command.NAME": the help has this name and the summary of the distribution, and imports nothing.

    Attributes:
        name: what users type after ``wlk-core``, of ``[a-z][a-z0-9-]*``.
        api: the plugin API this spec was written for, a literal number.
        load: where the click command is, "package.module:command".
        requires: the distributions it needs at run time, each with the command that installs it.

    """

    kind: ClassVar = "command"

    name: str = attrs.field(validator=NAME)
    api: int
    load: str = attrs.field(validator=LOADER)
    requires: Mapping[str, str] = attrs.field(factory=dict)
