"""
The WebSocket of Jigasi, ``/streaming-whisper/ws/MEETING``.

Jigasi appends the meeting to the address in its configuration, and sends no key but a token that it
signs itself; a server with keys has one in the address: ``/streaming-whisper/ws/KEY/MEETING``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_protocols.fields import path_keys
from wlk_protocols.jitsi.protocol import JitsiProtocol
from wlk_serve.protocols import Opening, SocketRoute, StreamOptions

if TYPE_CHECKING:
    from wlk_serve.protocols import Handshake

_ADDRESS = "/streaming-whisper/ws"


def _open(handshake: Handshake) -> Opening:
    card = handshake.card(None)
    options = StreamOptions(language=card.language)
    return Opening(make=JitsiProtocol, card=card, options=options)


def routes() -> list[SocketRoute]:
    """Return the routes of Jigasi."""
    meeting, with_key = f"{_ADDRESS}/{{meeting}}", f"{_ADDRESS}/{{key}}/{{meeting}}"
    return [
        SocketRoute(protocol="jitsi", path=meeting, open=_open),
        SocketRoute(protocol="jitsi", path=with_key, open=_open, keys=path_keys),
    ]
