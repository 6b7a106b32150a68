"""The WebSocket ``/asr``: read keys and options from the handshake, refuse invalid ones."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from wlk_protocols.asr.protocol import MODES, AsrProtocol
from wlk_protocols.fields import chosen_subprotocol, language_of
from wlk_serve.protocols import (
    CloseSocket,
    Opening,
    RequestError,
    SocketRoute,
    StreamOptions,
    error_response,
    header_keys,
)

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection
    from starlette.responses import Response

    from wlk_serve.protocols import Handshake

_BAD_KEY, _BAD_OPTIONS = 4401, 4400  # close codes
_KEY_STATUS = 401
_TEMPORARY = {429, 503}
_NO_LANGUAGE = {"", "none"}  # values of target_language that forms send for no translation


def _keys(connection: HTTPConnection) -> list[str]:
    return [*header_keys(connection.headers), *connection.query_params.getlist("token")]


def _refuse(error: RequestError) -> Response | CloseSocket:
    if error.status == _KEY_STATUS:
        return CloseSocket(code=_BAD_KEY)  # before the socket is accepted
    if error.status in _TEMPORARY:  # the page backs off only if the socket was not accepted
        return error_response(error)
    return CloseSocket(code=_BAD_OPTIONS, message={"type": "error", "error": str(error)})


def _open(handshake: Handshake) -> Opening:
    query = handshake.query
    card = handshake.card(query.get("model"))
    mode = query.get("mode", "full")
    if mode not in MODES:
        raise RequestError(f"expected mode as {' or '.join(MODES)}, got {mode[:100]!r}")
    target = query.get("target_language", "").lower()
    if target not in {*_NO_LANGUAGE, card.translates_to}:
        expected = f"target_language={card.translates_to} or none"
        if card.translates_to is None:
            expected = "no target_language: this server does not translate"
        raise RequestError(f"expected {expected}")
    return Opening(
        make=partial(AsrProtocol, mode=mode),
        card=card,
        options=StreamOptions(
            language=language_of(card, query.get("language", "")),
            translates=card.translates_to is not None,
        ),
        subprotocol=chosen_subprotocol(handshake),
    )


def routes() -> list[SocketRoute]:
    """Return the route of WhisperLiveKit's clients."""
    return [SocketRoute(protocol="asr", path="/asr", open=_open, keys=_keys, refuse=_refuse)]
