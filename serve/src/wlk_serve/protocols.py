"""
Everything an author of a protocol needs, and the hook by which a distribution offers one.

A distribution names its module as an entry point of the group "wlk.protocols"; the module
implements `wlk_protocols`.  docs/protocols.md has an example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import metadata
import logging
import sys
from typing import Any, TypeAlias, TypeVar, cast

import pluggy

from wlk_serve.errors import RequestError, as_request_error, error_response
from wlk_serve.http.admission import header_keys
from wlk_serve.models.card import ModelCard
from wlk_serve.models.stream import GateTimes, StreamSettings
from wlk_serve.sessions.audio import SegmentEnd, SessionAudio, StreamSegment
from wlk_serve.sessions.protocol import (
    ClientProtocol,
    CloseSocket,
    Handshake,
    Message,
    Opening,
    RecordingRequest,
    RecordingRoute,
    SessionInfo,
    SocketRoute,
    TcpRoute,
)
from wlk_serve.sessions.webm import DAMAGED_AUDIO, WEBM_START, WebmDecoder
from wlk_serve.transcriptions.protocol import TranscriptionRequest

__all__ = [
    "DAMAGED_AUDIO",
    "ENTRY_POINT_GROUP",
    "ClientProtocol",
    "CloseSocket",
    "GateTimes",
    "Handshake",
    "Message",
    "ModelCard",
    "Opening",
    "RecordingRequest",
    "RecordingRoute",
    "RequestError",
    "SegmentEnd",
    "SessionAudio",
    "SessionInfo",
    "SocketRoute",
    "StreamSegment",
    "StreamSettings",
    "TcpRoute",
    "TranscriptionRequest",
    "WEBM_START",
    "WebmDecoder",
    "as_request_error",
    "error_response",
    "header_keys",
    "hookimpl",
    "installed_routes",
    "wlk_protocols",
]

Route: TypeAlias = "SocketRoute | RecordingRoute | TcpRoute"
F = TypeVar("F", bound=Callable[..., Any])

ENTRY_POINT_GROUP = "wlk.protocols"  #: where distributions declare their modules
_LOGGER = logging.getLogger(__name__)

# The casts keep the decorated signature visible to type checkers (pluggy#191).
hookspec = cast("Callable[[F], F]", pluggy.HookspecMarker("wlk_serve"))
hookimpl = cast("Callable[[F], F]", pluggy.HookimplMarker("wlk_serve"))


@hookspec
def wlk_protocols() -> Iterable[Route]:  # type: ignore[empty-body]  # a specification has no body
    """Return the routes of the protocols that a distribution provides."""


def installed_routes() -> list[Route]:
    """
    Return the routes of every installed protocol.

    A plugin that cannot be loaded is logged and left out, so that the others serve; so is a route
    whose place is taken.
    """
    routes: dict[tuple[type[Route], str], Route] = {}
    points = metadata.entry_points(group=ENTRY_POINT_GROUP)
    for point in sorted(points, key=lambda point: point.name):
        manager = pluggy.PluginManager("wlk_serve")
        manager.add_hookspecs(sys.modules[__name__])
        try:
            manager.register(point.load())
            offered = [route for group in manager.hook.wlk_protocols() for route in group]
        except (Exception, SystemExit):  # foreign code may raise anything
            _LOGGER.exception("protocol %s is left out: its plugin does not load", point.name)
            continue
        for route in offered:
            place = route.protocol if isinstance(route, TcpRoute) else route.path
            if (type(route), place) in routes:
                _LOGGER.error("protocol %s is left out: %s is taken", point.name, place)
            routes.setdefault((type(route), place), route)
    return list(routes.values())
