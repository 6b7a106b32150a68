"""The routes of Deepgram's clients: read keys and queries, refuse invalid ones."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse

from wlk_protocols.deepgram.flux import FluxProtocol
from wlk_protocols.deepgram.listen import ListenProtocol
from wlk_protocols.deepgram.multichannel import MultichannelProtocol
from wlk_protocols.deepgram.prerecorded import recording_request
from wlk_protocols.deepgram.query import FluxQuery, ListenQuery
from wlk_protocols.fields import chosen_subprotocol
from wlk_serve.protocols import (
    Opening,
    RecordingRoute,
    RequestError,
    SocketRoute,
    header_keys,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import HTTPConnection

    from wlk_serve.protocols import ClientProtocol, Handshake, ModelCard, SessionAudio, SessionInfo

_SCHEMES = {"token", "bearer"}  # browsers offer one, followed by the key as another subprotocol


def _keys(connection: HTTPConnection) -> list[str]:
    scheme, *keys = connection.scope.get("subprotocols") or [""]
    return [*header_keys(connection.headers), *(keys if scheme.lower() in _SCHEMES else [])]


def _refuse(error: RequestError) -> JSONResponse:
    code = "INVALID_AUTH" if error.code == "invalid_api_key" else str(error.code).upper()
    body = {"err_code": code, "err_msg": str(error), "request_id": ""}
    # The error quotes what the client sent, and a header holds nothing but printable ASCII safely.
    header = "".join(mark if " " <= mark <= "~" else "?" for mark in str(error)[:200])
    return JSONResponse(body, error.status, {"dg-error": header})


def _open(
    handshake: Handshake,
    protocol: Callable[[SessionAudio, SessionInfo, Any], ClientProtocol],
    query_kind: type[ListenQuery | FluxQuery],
) -> Opening:
    card = _served_card(handshake)
    query = query_kind.parse(handshake.query, card)
    return Opening(
        make=lambda audio, info: protocol(audio, info, query),
        card=card,
        options=query.options,
        subprotocol=chosen_subprotocol(handshake),
    )


def _listen(audio: SessionAudio, info: SessionInfo, query: ListenQuery) -> ClientProtocol:
    protocol = MultichannelProtocol if query.channels > 1 else ListenProtocol
    return protocol(audio, info, query)


def _served_card(handshake: Handshake) -> ModelCard:
    """Return the card of the requested model; the default one for names such as nova-3."""
    try:
        return handshake.card(handshake.query.get("model"))
    except RequestError:
        return handshake.card(None)


def routes() -> list[SocketRoute | RecordingRoute]:
    """Return the routes of Deepgram's clients: the WebSockets of both versions, and recordings."""
    sockets = [
        SocketRoute(
            protocol="deepgram",
            path=path,
            open=partial(_open, protocol=protocol, query_kind=query_kind),
            keys=_keys,
            refuse=_refuse,
        )
        for path, protocol, query_kind in (
            ("/v1/listen", _listen, ListenQuery),
            ("/v2/listen", FluxProtocol, FluxQuery),
        )
    ]
    recordings = RecordingRoute(
        protocol="deepgram",
        path="/v1/listen",
        open=lambda handshake: recording_request(handshake, _served_card(handshake)),
        keys=_keys,
        refuse=_refuse,
    )
    return [*sockets, recordings]
