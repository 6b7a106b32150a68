"""The WebSocket ``/v1/realtime``: what OpenAI's clients ask for when they connect."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from wlk_serve.errors import converted, invalid
from wlk_serve.protocols import Opening, Resumption, SocketRoute, hookimpl
from wlk_serve.realtime.config import default_config, model_name, update_config
from wlk_serve.realtime.protocol import RealtimeProtocol

if TYPE_CHECKING:
    from wlk_serve.protocols import Handshake

_NEW = "1"  # asks for a token
_SUBPROTOCOL = "realtime"  # which browsers need
_RESUME = "wlk-resume."  # the beginning of the subprotocol that is a token


def _open(handshake: Handshake) -> Opening | Resumption:
    query, offered = handshake.query, handshake.subprotocols
    subprotocol = _SUBPROTOCOL if _SUBPROTOCOL in offered else None
    number = query.get("wlk_last_seq", "0")
    last = converted(number, Annotated[int, Meta(ge=0)], "wlk_last_seq", is_text=True)
    wish = query.get("wlk_resume")
    if wish not in {None, _NEW}:  # a query is written to the logs of proxies
        expected = f"as {_NEW}, and a token as the subprotocol {_RESUME}TOKEN"
        raise invalid("wlk_resume", expected)
    token = next((name for name in offered if name.startswith(_RESUME)), None)
    if token is not None:
        return Resumption(token=token.removeprefix(_RESUME), last=last, subprotocol=subprotocol)
    card = handshake.card(query.get("model", model_name(handshake.secret)))
    if query.get("intent", "transcription") != "transcription":
        raise invalid("intent", "as transcription")
    config = default_config(card)
    if handshake.secret is not None:
        config = update_config(config, handshake.secret, card)
    return Opening(
        make=partial(RealtimeProtocol, config=config),
        card=card,
        settings=config.stream_settings(),
        subprotocol=subprotocol,
        is_resumable=wish == _NEW,
    )


@hookimpl
def wlk_protocols() -> list[SocketRoute]:
    """Return the WebSocket of OpenAI's transcriptions."""
    return [SocketRoute(protocol="realtime", path="/v1/realtime", open=_open)]
