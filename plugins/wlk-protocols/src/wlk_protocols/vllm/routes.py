"""The WebSocket ``/vllm/v1/realtime``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_protocols.fields import chosen_subprotocol
from wlk_protocols.vllm.protocol import VllmProtocol
from wlk_serve.protocols import Opening, SocketRoute, StreamOptions

if TYPE_CHECKING:
    from wlk_serve.protocols import Handshake


def _open(handshake: Handshake) -> Opening:
    card = handshake.card(handshake.query.get("model"))
    return Opening(
        make=VllmProtocol,
        card=card,
        options=StreamOptions(language=card.language),
        subprotocol=chosen_subprotocol(handshake),
    )


def routes() -> list[SocketRoute]:
    """Return the route of vLLM's clients."""
    return [SocketRoute(protocol="vllm", path="/vllm/v1/realtime", open=_open)]
