"""The hooks through which plugins provide backends and annotators."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import pluggy

if TYPE_CHECKING:
    from wlk_core.annotators import AnnotatorSpec
    from wlk_core.backend import BackendSpec

F = TypeVar("F", bound=Callable[..., Any])

API_VERSION: Final = 1  #: the version of this wlk-core's plugin API
API_FLOOR: Final = 1  #: the oldest version that it still accepts
PROJECT: Final = "wlk"  #: the pluggy project
ENTRY_POINT_GROUP: Final = "wlk.plugins"  #: where distributions declare their plugin modules

# The casts keep the decorated signature visible to type checkers (pluggy#191).
hookspec = cast("Callable[[F], F]", pluggy.HookspecMarker(PROJECT))
hookimpl = cast("Callable[[F], F]", pluggy.HookimplMarker(PROJECT))


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
