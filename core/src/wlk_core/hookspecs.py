"""The hooks through which plugins provide backends, annotators and commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pluggy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core.annotators import AnnotatorSpec
    from wlk_core.backend import BackendSpec
    from wlk_core.options import PluginSpec

API_VERSION: Final = 1  #: the version of this wlk-core's plugin API
API_FLOOR: Final = 1  #: the oldest version that it still accepts
PROJECT: Final = "wlk"  #: the pluggy project
#: Where distributions declare their plugin modules.  An entry point is named after what the module
#: offers: a backend's or annotator's name, "command.NAME" or "protocol.NAME".  A module of further
#: hook specifications is declared as "hookspecs.NAME".
ENTRY_POINT_GROUP: Final = "wlk.plugins"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def wlk_backends() -> Iterable[BackendSpec]:  # type: ignore[empty-body]  # a specification has no body
    """
    Return the backends this plugin provides.

    Called once, when the registry first needs the plugin.  The module that implements it should
    import nothing heavier than wlk_core.plugins; frameworks are for the loader, `BackendSpec.load`.
    """


@hookspec
def wlk_diarizers() -> Iterable[AnnotatorSpec]:  # type: ignore[empty-body]  # as above
    """Return the diarizers this plugin provides, of kind "diarizer"; see `wlk_backends`."""


@hookspec
def wlk_translators() -> Iterable[AnnotatorSpec]:  # type: ignore[empty-body]  # as above
    """Return the translators this plugin provides, of kind "translator"."""


@hookspec
def wlk_turn_detectors() -> Iterable[AnnotatorSpec]:  # type: ignore[empty-body]  # as above
    """Return the turn detectors this plugin provides, of kind "turn-detector"."""


@hookspec
def wlk_text_filters() -> Iterable[AnnotatorSpec]:  # type: ignore[empty-body]  # as above
    """Return the text filters this plugin provides, of kind "text-filter"."""


@hookspec
def wlk_commands() -> Iterable[PluginSpec]:  # type: ignore[empty-body]  # as above
    """
    Return the commands this plugin adds to ``wlk-core``, of kind "command".

    `PluginSpec.load` names a `click.Command`, which is imported when the command is used.
    """
