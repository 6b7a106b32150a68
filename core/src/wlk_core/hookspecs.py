"""The hooks by which a plugin offers backends, annotators and commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, cast

import attrs
import pluggy

from wlk_core.options import LOADER, NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wlk_core.annotators import AnnotatorSpec
    from wlk_core.backend import BackendSpec

__all__ = [
    "API_FLOOR",
    "API_VERSION",
    "COMMAND_PREFIX",
    "ENTRY_POINT_GROUP",
    "PROJECT",
    "CommandSpec",
    "hookimpl",
    "hookspec",
    "wlk_backends",
    "wlk_commands",
    "wlk_diarizers",
    "wlk_translators",
    "wlk_turn_detectors",
]

F = TypeVar("F", bound=Callable[..., Any])

API_VERSION: Final = 1  #: the plugin API this wlk-core speaks
API_FLOOR: Final = 1  #: the oldest plugin API it still understands
PROJECT: Final = "wlk"  #: the pluggy project
ENTRY_POINT_GROUP: Final = "wlk.plugins"  #: where distributions declare their plugin modules

COMMAND_PREFIX = "command."  #: of entry points of commands, so that no other plugin is imported

# The casts keep the decorated signature visible to type checkers (pluggy#191).
hookspec = cast("Callable[[F], F]", pluggy.HookspecMarker(PROJECT))
hookimpl = cast("Callable[[F], F]", pluggy.HookimplMarker(PROJECT))


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


@hookspec
def wlk_backends() -> Iterable[BackendSpec]:  # type: ignore[empty-body]  # a specification has no body
    """
    Return the backends this plugin provides.

    Called once, when the registry first needs the plugin.  The module that implements it imports
    nothing heavier than wlk_core.plugins, because frameworks are imported by `BackendSpec.load`.
    """


@hookspec
def wlk_diarizers() -> Iterable[AnnotatorSpec]:  # type: ignore[empty-body]  # as above
    """Return the diarizers this plugin provides, of the kind "diarizer"; see `wlk_backends`."""


@hookspec
def wlk_translators() -> Iterable[AnnotatorSpec]:  # type: ignore[empty-body]  # as above
    """Return the translators this plugin provides, of the kind "translator"."""


@hookspec
def wlk_turn_detectors() -> Iterable[AnnotatorSpec]:  # type: ignore[empty-body]  # as above
    """Return the turn detectors this plugin provides, of the kind "turn-detector"."""


@hookspec
def wlk_commands() -> Iterable[CommandSpec]:  # type: ignore[empty-body]  # as above
    """Return the commands this plugin provides; each has the entry point "command.NAME"."""
