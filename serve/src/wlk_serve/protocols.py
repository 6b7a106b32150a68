"""
What a protocol of the server is, and all that its author needs.

A distribution names its module as an entry point of the group "wlk.protocols"; the module
implements `wlk_protocols`, which returns routes: an address, how a session is opened, and an object
for it.  docs/protocols.md has an example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import metadata
import logging
import sys
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar, cast

import attrs
import pluggy

from wlk_core.vad import GateParameters
from wlk_serve.errors import RequestError, as_request_error, converted, error_response, invalid
from wlk_serve.http.admission import header_keys
from wlk_serve.models.card import ModelCard
from wlk_serve.models.stream import StreamSettings
from wlk_serve.sessions.audio import SegmentEnd, SessionAudio, StreamSegment
from wlk_serve.sessions.webm import DAMAGED_AUDIO, WEBM_START, WebmDecoder
from wlk_serve.transcriptions.protocol import TranscriptionRequest

if TYPE_CHECKING:
    from asyncio import StreamReader
    from collections.abc import Awaitable, Collection, Sequence

    from starlette.datastructures import Headers, QueryParams
    from starlette.requests import HTTPConnection
    from starlette.responses import Response

    from wlk_core.session.events import Event
    from wlk_core.tokens import ASRToken

__all__ = [
    "DAMAGED_AUDIO",
    "ENTRY_POINT_GROUP",
    "WEBM_START",
    "ClientProtocol",
    "CloseSocket",
    "GateParameters",
    "Handshake",
    "Message",
    "ModelCard",
    "Opening",
    "RecordingRequest",
    "RecordingRoute",
    "RequestError",
    "Resumption",
    "SegmentEnd",
    "SessionAudio",
    "SessionInfo",
    "SocketRoute",
    "StreamSegment",
    "StreamSettings",
    "TcpRoute",
    "TranscriptionRequest",
    "WebmDecoder",
    "as_request_error",
    "converted",
    "error_response",
    "header_keys",
    "hookimpl",
    "installed_routes",
    "invalid",
    "wlk_protocols",
]

Message: TypeAlias = "dict[str, Any]"
RecordingAnswer: TypeAlias = "Callable[[str, Sequence[ASRToken], float], Message]"
RecordingRequest: TypeAlias = "tuple[TranscriptionRequest, RecordingAnswer]"
Route: TypeAlias = "SocketRoute | RecordingRoute | TcpRoute"
F = TypeVar("F", bound=Callable[..., Any])

ENTRY_POINT_GROUP = "wlk.protocols"  #: where distributions declare their modules
_LOGGER = logging.getLogger(__name__)

# The casts keep the decorated signature visible to type checkers (pluggy#191).
hookspec = cast("Callable[[F], F]", pluggy.HookspecMarker("wlk_serve"))
hookimpl = cast("Callable[[F], F]", pluggy.HookimplMarker("wlk_serve"))


@attrs.frozen(kw_only=True)
class SessionInfo:
    """
    What a protocol may know of its session.

    Attributes:
        id: its name in the log.
        card: the model that is served.
        expires_at: seconds of the epoch at which the server ends it.
        resume: the token by which a client resumes it, and for how many seconds after a loss; None
            where it ends with its socket.

    """

    id: str
    card: ModelCard
    expires_at: int = 0
    resume: tuple[str, int] | None = None


class ClientProtocol(Protocol):
    """
    One session in the protocol of its client, without sockets, threads and clocks.

    It is made with the session's audio, which it tells what the client sends.  Each method returns
    the messages to send, JSON objects in their order.  Once the audio is over, the messages that
    wait are sent and the socket is closed.
    """

    @property
    def replaceable(self) -> Collection[str | None]:
        """
        Values of the field "type" of which only the newest message matters.

        None stands for messages without a type.  While one waits for a slow client, a newer one of
        its type replaces it.
        """

    def begin(self) -> Iterable[Message]:
        """Return the first messages of a connection."""

    def receive(self, data: str | bytes) -> Iterable[Message]:
        """Apply a message of the client, whatever it is; nothing that a client sends raises."""

    def handle(self, event: Event | SegmentEnd) -> Iterable[Message]:
        """Apply what happened, with times in seconds of the session."""

    def refuse(self, error: RequestError) -> Iterable[Message]:
        """
        Report an error: a limit of the server, or that the stream was not opened.

        While `SessionAudio.is_waiting`, the error answers the message that was received last.
        """

    def end(self) -> Iterable[Message]:
        """End the audio before a shutdown or at a limit; may be called again."""


@attrs.frozen(kw_only=True)
class Handshake:
    """
    What a client sent to open a socket, or with a recording.

    Attributes:
        headers: by their names in lower case.
        query: the fields of the query.
        subprotocols: which it offers.
        secret: the configuration that its client secret carries; None without one.
        card: returns the card of a model by its name, the default one for None; raises RequestError
            where there is none.

    """

    headers: Headers
    query: QueryParams
    subprotocols: Sequence[str]
    secret: dict[str, Any] | None
    card: Callable[[object], ModelCard]

    @classmethod
    def of(
        cls, connection: HTTPConnection, card: ModelCard, secret: dict[str, Any] | None = None
    ) -> Self:
        """Return what *connection* brings to a server of *card*."""
        return cls(
            headers=connection.headers,
            query=connection.query_params,
            subprotocols=connection.scope.get("subprotocols", ()),
            secret=secret,
            card=card.named,
        )


@attrs.frozen(kw_only=True)
class Opening:
    """
    A new session.

    Attributes:
        make: returns its protocol.
        card: the model that it needs.
        settings: how its first stream is opened.
        subprotocol: which the server accepts, None for none.
        is_resumable: whether a client that lost its socket may resume it.  Its messages are
            numbered and acknowledged as docs/protocol.md says.

    """

    make: Callable[[SessionAudio, SessionInfo], ClientProtocol]
    card: ModelCard
    settings: StreamSettings
    subprotocol: str | None = None
    is_resumable: bool = False


@attrs.frozen(kw_only=True)
class Resumption:
    """A session that a client resumes by its *token*, with the messages after number *last*."""

    token: str
    last: int
    subprotocol: str | None = None


@attrs.frozen(kw_only=True)
class CloseSocket:
    """A refusal for clients that cannot read the status of one: a message and a close code."""

    code: int
    message: Message | None = None  #: None refuses without accepting the socket


def _header_keys(connection: HTTPConnection) -> list[str]:
    return header_keys(connection.headers)


@attrs.frozen(kw_only=True)
class SocketRoute:
    """
    A WebSocket of a protocol.

    Attributes:
        protocol: its name in metrics and logs, of letters.
        path: the address, as "/v1/realtime".
        open: returns what a client wants; raises WLKError to refuse it.
        keys: returns the keys that a client offers, in the places where this protocol has them.
        refuse: returns how an error is answered before a session begins.

    """

    protocol: str
    path: str
    open: Callable[[Handshake], Opening | Resumption]
    keys: Callable[[HTTPConnection], list[str]] = _header_keys
    refuse: Callable[[RequestError], Response | CloseSocket] = error_response


@attrs.frozen(kw_only=True)
class RecordingRoute:
    """
    A POST whose body is a recording of any format; its address may be that of a WebSocket too.

    The other attributes are those of a `SocketRoute`.

    Attributes:
        open: returns how the recording is transcribed, and what makes the JSON object of the answer
            from the identifier of the request, the words, and the seconds of audio; raises WLKError
            to refuse it before the body is read.

    """

    protocol: str
    path: str
    open: Callable[[Handshake], RecordingRequest]
    keys: Callable[[HTTPConnection], list[str]] = _header_keys
    refuse: Callable[[RequestError], Response] = error_response


@attrs.frozen(kw_only=True)
class TcpRoute:
    """
    A protocol with a port of its own, without HTTP: served where ``--listen NAME=PORT`` names it.

    It has no keys, so that whoever reaches the port may use it.  Answers are lines of JSON.

    Attributes:
        protocol: its name in metrics and logs, of letters.
        open: returns what a client wants, who has said nothing yet; its argument returns the card
            of a model by its name, the default one for None.
        read: reads the next message, None at the end; raises ValueError for what is none, and the
            connection is closed.
        refuse: returns the message that answers an error before a session begins.

    """

    protocol: str
    open: Callable[[Callable[[object], ModelCard]], Opening]
    read: Callable[[StreamReader], Awaitable[bytes | None]]
    refuse: Callable[[RequestError], Message]


@hookspec
def wlk_protocols() -> Iterable[Route]:  # type: ignore[empty-body]  # a specification has no body
    """Return the routes of the protocols that a distribution provides."""


def installed_routes() -> list[Route]:
    """
    Return the routes of every installed protocol.

    A plugin that cannot be loaded is logged and left out, so that the others serve.
    """
    routes: list[Route] = []
    points = metadata.entry_points(group=ENTRY_POINT_GROUP)
    for point in sorted(points, key=lambda point: point.name):
        try:
            routes += _declared_routes(point.load())
        except (Exception, SystemExit):  # foreign code may raise anything
            _LOGGER.exception("protocol %s is left out: its plugin does not load", point.name)
    return routes


def _declared_routes(plugin: object) -> list[Route]:
    manager = pluggy.PluginManager("wlk_serve")
    manager.add_hookspecs(sys.modules[__name__])
    manager.register(plugin)
    routes = [route for group in manager.hook.wlk_protocols() for route in group]
    for route in routes:
        if not isinstance(route, SocketRoute | RecordingRoute | TcpRoute):
            raise TypeError(f"expected routes of wlk_protocols, got {route!r}")
    return routes
