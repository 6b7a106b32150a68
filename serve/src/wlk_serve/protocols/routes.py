"""Declare the routes of a protocol, what opens a session, and what a session's protocol does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

import attrs

from wlk_core.untrusted import shown
from wlk_serve.errors import RequestError, error_response

if TYPE_CHECKING:
    from asyncio import StreamReader
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from starlette.datastructures import Headers, QueryParams
    from starlette.requests import HTTPConnection
    from starlette.responses import Response

    from wlk_live.session.events import Event
    from wlk_serve.protocols.audio import SegmentEnd, SessionAudio
    from wlk_serve.protocols.card import ModelCard
    from wlk_serve.protocols.options import StreamOptions, TranscriptionRequest

Message: TypeAlias = "dict[str, Any]"
RecordingAnswer: TypeAlias = "Callable[[str, Any, float], Message]"
RecordingRequest: TypeAlias = "tuple[TranscriptionRequest, RecordingAnswer]"
HandleEvent: TypeAlias = "Callable[[Event | SegmentEnd], Iterable[Message]]"
ProtocolRoute: TypeAlias = "SocketRoute | RecordingRoute | TcpRoute"

_KEY_PROTOCOL = "openai-insecure-api-key."  # browsers send a WebSocket's key in a subprotocol
_PATH = re.compile(r"/[\w.~-]+(/[\w.~-]+|/\{[a-z]+\})*")


def _no_channel(_options: StreamOptions, _handle: HandleEvent) -> SessionAudio:
    raise RequestError("this session cannot have another channel", code="too_many_channels")


@attrs.frozen(kw_only=True)
class SessionInfo:
    """
    What a protocol may know about its session.

    Attributes:
        id: the session's name in the log.
        card: the served model.
        expires_at: when the server ends the session, in seconds since the epoch.
        resume: the token with which a client can resume the session, and for how many seconds after
            a loss; None if the session ends with its socket.
        open_channel: returns more audio of the same client, at the same rate, whose events go to
            the given function instead of the protocol's `handle`.  It is counted as a session of
            its own until it is over: raises RequestError if the server is full.  The protocol ends
            it, perhaps long before the session.
        send: sends messages that answer neither the client nor an event, such as news of another
            session, and closes a session whose audio has ended; call it in the event loop.

    """

    id: str
    card: ModelCard
    expires_at: int = 0
    resume: tuple[str, int] | None = None
    open_channel: Callable[[StreamOptions, HandleEvent], SessionAudio] = _no_channel
    send: Callable[[Iterable[Message]], None] = lambda _messages: None


class ClientProtocol(Protocol):
    """
    One session in its client's protocol, without sockets, threads or clocks.

    It is created with the session's audio, and passes on to it what the client sends.  Each method
    returns the messages to send, as JSON objects in order.  Once the audio is over, the remaining
    messages are sent and the socket is closed.
    """

    @property
    def replaceable(self) -> Collection[str | None]:
        """
        The message types, values of the field "type", of which only the newest message matters.

        None stands for messages without a type.  While such a message waits for a slow client, a
        newer one of its type replaces it.
        """

    def begin(self) -> Iterable[Message]:
        """Return the first messages of a connection."""

    def receive(self, data: str | bytes) -> Iterable[Message]:
        """Apply a message of the client; raise RequestError to have it refused by `refuse`."""

    def handle(self, event: Event | SegmentEnd) -> Iterable[Message]:
        """Apply an event of the audio, with times in seconds on the session's clock."""

    def refuse(self, error: RequestError) -> Iterable[Message]:
        """Report that the last message that was received is refused."""

    def end(self) -> Iterable[Message]:
        """End the audio before a shutdown or at a limit; may be called again."""


@attrs.frozen(kw_only=True)
class Handshake:
    """
    What a client sent to open a socket or to upload a recording.

    Attributes:
        headers: their names are in lower case.
        query: the fields of the query.
        subprotocols: those that the client offers.
        secret: the configuration in its client secret; None without one.
        key_id: identifies its key; "" if the server needs none.
        card: returns the card of a model by name, the default model's for None; raises RequestError
            if the model is not served.

    """

    headers: Headers
    query: QueryParams
    subprotocols: Sequence[str]
    secret: dict[str, Any] | None
    card: Callable[[object], ModelCard]
    key_id: str = ""

    @classmethod
    def of(
        cls,
        connection: HTTPConnection,
        card: ModelCard,
        secret: dict[str, Any] | None = None,
        key_id: str = "",
    ) -> Self:
        """Return the handshake of *connection* with a server that serves *card*."""
        return cls(
            headers=connection.headers,
            query=connection.query_params,
            subprotocols=connection.scope.get("subprotocols", ()),
            secret=secret,
            card=card.named,
            key_id=key_id,
        )


@attrs.frozen(kw_only=True)
class Opening:
    """
    A request for a new session.

    Attributes:
        make: returns the object that speaks the protocol.
        card: the model that the session needs.
        options: how its first stream is opened.
        subprotocol: the one that the server accepts, None for none.
        is_resumable: whether a client that lost its socket may resume the session.  Messages are
            then numbered and acknowledged, see docs/serve.md.
        has_readers: whether others read the words: they are completed after the socket is lost.
        only_reads: whether the client sends nothing: it is then never idle.

    """

    make: Callable[[SessionAudio, SessionInfo], ClientProtocol]
    card: ModelCard
    options: StreamOptions
    subprotocol: str | None = None
    is_resumable: bool = False
    has_readers: bool = False
    only_reads: bool = False


@attrs.frozen(kw_only=True)
class Resumption:
    """A request to resume the session with *token*, from the message after number *last*."""

    token: str
    last: int
    subprotocol: str | None = None


@attrs.frozen(kw_only=True)
class CloseSocket:
    """A refusal for clients that cannot read an HTTP status: a message and a close code."""

    code: int
    message: Message | None = None  #: if None, the socket is refused without being accepted


def header_keys(headers: Mapping[str, str]) -> list[str]:
    """
    Return the keys in *headers* (lower-case names), from wherever OpenAI's clients put them.

    Headers are read as Latin-1; what may have been UTF-8 is returned in both readings.
    """
    kind, _, bearer = headers.get("authorization", "").partition(" ")
    keys = [bearer.strip()] if kind.lower() in {"bearer", "token"} else []
    keys += [headers[name] for name in ("api-key", "x-api-key") if name in headers]
    offered = headers.get("sec-websocket-protocol", "").split(",")
    names = [name.strip() for name in offered]
    keys += [name.removeprefix(_KEY_PROTOCOL) for name in names if name.startswith(_KEY_PROTOCOL)]
    return [reading for key in keys for reading in _readings(key)]


def _readings(key: str) -> list[str]:
    try:
        return [*dict.fromkeys([key, key.encode("latin-1").decode()])]
    except UnicodeError:
        return [key]


def is_key_protocol(name: str) -> bool:
    """Return whether the subprotocol *name* holds a key, which responses should not repeat."""
    return name.startswith(_KEY_PROTOCOL)


def _header_keys(connection: HTTPConnection) -> list[str]:
    return header_keys(connection.headers)


def _check_path(_route: object, _attribute: object, path: Any) -> None:
    """Refuse a path here, in the plugin, because it would stop the whole server later."""
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        raise ValueError(f"expected path as an address such as /v1/listen, got {shown(path)}")


@attrs.frozen(kw_only=True)
class SocketRoute:
    """
    The WebSocket of a protocol.

    Attributes:
        protocol: its name in metrics and logs, letters only.
        path: the address, such as "/v1/realtime"; a part in braces, such as "{key}", stands for
            any text, which `HTTPConnection.path_params` has.
        open: returns the session that a client asks for; raises WLKError to refuse it.
        keys: returns the keys that a client offers, from wherever this protocol puts them.
        takes_secrets: whether a client secret is as good as a key; `Handshake.secret` then has its
            configuration.  Secrets are for browsers: whoever reads a page has one.
        refuse: returns the answer to an error before the session begins.

    """

    protocol: str
    path: str = attrs.field(validator=_check_path)
    open: Callable[[Handshake], Opening | Resumption]
    keys: Callable[[HTTPConnection], list[str]] = _header_keys
    takes_secrets: bool = False
    refuse: Callable[[RequestError], Response | CloseSocket] = error_response


@attrs.frozen(kw_only=True)
class RecordingRoute:
    """
    A POST whose body is a recording in any format; a WebSocket may have the same address.

    The other attributes are those of a `SocketRoute`.

    Attributes:
        open: returns how to transcribe the recording, and a function that returns the answer, a
            JSON object, from the request's identifier, the words (a list of those of each channel
            if the request is multichannel) and the seconds of audio; raises WLKError to refuse the
            request before its body is read.

    """

    protocol: str
    path: str = attrs.field(validator=_check_path)
    open: Callable[[Handshake], RecordingRequest]
    keys: Callable[[HTTPConnection], list[str]] = _header_keys
    refuse: Callable[[RequestError], Response] = error_response


@attrs.frozen(kw_only=True)
class TcpRoute:
    """
    A protocol without HTTP, on its own port: served if ``--listen NAME=PORT`` names it.

    It has no keys: whoever can reach the port may use it.  Messages to the client are sent as lines
    of JSON.

    Attributes:
        protocol: its name in metrics and logs, letters only.
        open: returns the session of a client, before the client has sent anything; its argument
            returns the card of a model by name, the default model's for None.
        read: reads the next message, None at the end; raises ValueError for a malformed message, on
            which the connection is closed.
        refuse: returns the message that answers an error before the session begins.

    """

    protocol: str
    open: Callable[[Callable[[object], ModelCard]], Opening]
    read: Callable[[StreamReader], Awaitable[bytes | None]]
    refuse: Callable[[RequestError], Message]
