"""
The WebSockets of phone calls: ``/twilio/media`` for Twilio, ``/twilio/calls`` to follow them.

Twilio can send neither a header nor a query, so a server with keys has one at the end of the
address: ``/twilio/media/KEY``.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from wlk_protocols.fields import chosen_subprotocol, path_keys
from wlk_protocols.twilio.calls import Calls, FollowerProtocol
from wlk_protocols.twilio.protocol import TwilioProtocol
from wlk_serve.protocols import Opening, SocketRoute, StreamOptions, converted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wlk_serve.protocols import Handshake


def _open_media(handshake: Handshake, calls: Mapping[str, Calls]) -> Opening:
    card = handshake.card(handshake.query.get("model"))
    answers = converted(
        handshake.query.get("transcripts", "false"), bool, "transcripts", is_text=True
    )
    return Opening(
        make=partial(TwilioProtocol, calls=calls[handshake.key_id], answers=answers),
        card=card,
        options=StreamOptions(encoding="mulaw", rate=8000, language=card.language),
        subprotocol=chosen_subprotocol(handshake),
        has_readers=True,
    )


def _open_follower(handshake: Handshake, calls: Mapping[str, Calls]) -> Opening:
    call_sid = handshake.query.get("callSid") or None
    return Opening(
        make=partial(FollowerProtocol, calls=calls[handshake.key_id], call_sid=call_sid),
        card=handshake.card(None),
        options=StreamOptions(),
        subprotocol=chosen_subprotocol(handshake),
        only_reads=True,
    )


def routes() -> list[SocketRoute]:
    """Return the routes of Twilio and of those who follow its calls."""
    calls: defaultdict[str, Calls] = defaultdict(Calls)  # by the id of the key
    media, follower = partial(_open_media, calls=calls), partial(_open_follower, calls=calls)
    return [
        SocketRoute(protocol="twilio", path="/twilio/media", open=media),
        SocketRoute(protocol="twilio", path="/twilio/media/{key}", open=media, keys=path_keys),
        SocketRoute(protocol="twilio", path="/twilio/calls", open=follower),
    ]
