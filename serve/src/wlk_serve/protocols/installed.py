"""Find the routes of all installed protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterable
import logging
from typing import TYPE_CHECKING

from wlk_core.errors import BackendUnavailable
from wlk_core.untrusted import shown
from wlk_serve.protocols.routes import RecordingRoute, SocketRoute, TcpRoute

if TYPE_CHECKING:
    from wlk_core.registry import Registry
    from wlk_serve.protocols.routes import ProtocolRoute

_LOGGER = logging.getLogger(__name__)


def installed_routes(registry: Registry) -> list[ProtocolRoute]:
    """
    Return the routes of every installed protocol.

    A protocol that cannot be used is left out and logged in one line; the others still serve.
    """
    for problem in _problems(registry):
        _LOGGER.error("%s", problem)
    routes: list[ProtocolRoute] = []
    for spec in registry.offers("protocol"):
        try:
            routes += registry.load_object(spec, Callable, "a function", use=_checked_routes)
        except BackendUnavailable as error:
            _LOGGER.error("%s", error)  # noqa: TRY400 -- one line
    return routes


def _problems(registry: Registry) -> Iterable[str]:
    """Return why plugins that declare a protocol are broken, and which names two of them offer."""
    usable = registry.offers("protocol")
    problems = []
    for plugin in registry.plugins():
        if plugin.error is not None:
            if any(name.startswith("protocol.") for name in plugin.names):
                problems.append(f"plugin {plugin.title} is left out: {plugin.failure}")
        elif not set(plugin.offers("protocol")) <= set(usable):
            problems.append(registry.fault(plugin) or "")
    return dict.fromkeys(problems)  # plugins that offer the same name have the same fault


def _checked_routes(declare: Callable[[], Iterable[object]]) -> list[ProtocolRoute]:
    routes: list[ProtocolRoute] = []
    for route in declare():
        if not isinstance(route, SocketRoute | RecordingRoute | TcpRoute):
            raise TypeError(f"expected routes, got {shown(route)}")
        routes.append(route)
    return routes
