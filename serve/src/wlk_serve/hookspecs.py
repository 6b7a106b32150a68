"""The hook through which plugins add protocols to the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.hookspecs import hookspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core.options import PluginSpec


@hookspec
def wlk_protocols() -> Iterable[PluginSpec]:  # type: ignore[empty-body]  # a specification has no body
    """
    Return the protocols this plugin adds to the server, of kind "protocol".

    `PluginSpec.load` names a function without arguments, which returns the routes; see
    `wlk_serve.protocols`.  A plugin that also works without wlk-serve implements the hook with
    ``@hookimpl(optionalhook=True)``.
    """
