"""The WebSocket ``/v1/realtime``: parse what OpenAI's clients send when they connect."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from wlk_serve.errors import converted, invalid
from wlk_serve.protocols import Opening, Resumption, SocketRoute
from wlk_serve.protocols.routes import is_key_protocol
from wlk_serve.realtime.config import default_config, model_name, update_config
from wlk_serve.realtime.protocol import RealtimeProtocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_serve.protocols import Handshake

_NEW = "1"  # requests a token for a new session
_SUBPROTOCOL = "realtime"
_RESUME = "wlk-resume."  # prefix of the subprotocol that carries a token


def _open(handshake: Handshake) -> Opening | Resumption:
    query, offered = handshake.query, handshake.subprotocols
    subprotocol = _accepted(offered)
    number = query.get("wlk_last_seq", "0")
    last = converted(number, Annotated[int, Meta(ge=0)], "wlk_last_seq", is_text=True)
    resume = query.get("wlk_resume")
    if resume not in {None, _NEW}:  # perhaps a token, but proxies write queries to their logs
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
        options=config.stream_options(),
        subprotocol=subprotocol,
        is_resumable=resume == _NEW,
    )


def _accepted(offered: Sequence[str]) -> str | None:
    """
    Return the subprotocol to accept, None if none is offered.

    Browsers fail a connection that accepts none of those they offered.
    """
    plain = [name for name in offered if not (is_key_protocol(name) or name.startswith(_RESUME))]
    return _SUBPROTOCOL if _SUBPROTOCOL in offered else next(iter([*plain, *offered]), None)


def routes() -> list[SocketRoute]:
    """Return the WebSocket of OpenAI's transcriptions."""
    return [SocketRoute(protocol="realtime", path="/v1/realtime", open=_open, takes_secrets=True)]
