"""The TCP port of Wyoming's clients: read one event after another."""

from __future__ import annotations

import json
from operator import index
from typing import TYPE_CHECKING, Any

from wlk_protocols.wyoming.protocol import WyomingProtocol, error_event
from wlk_serve.protocols import Opening, StreamOptions, TcpRoute

if TYPE_CHECKING:
    from asyncio import StreamReader
    from collections.abc import Callable

    from wlk_serve.protocols import ModelCard

_MAX_BYTES = 1 << 20  # data and payload of an event; Home Assistant sends chunks of 2 KiB


async def read_event(reader: StreamReader) -> bytes | None:
    """
    Return the bytes of the next event: a line of JSON, then data and payload; None at the end.

    Raises:
        ValueError: the line is malformed, or the event is too long.
        EOFError: the connection ended within the event.

    """
    line = await reader.readline()
    if not line:
        return None
    try:
        header: Any = json.loads(line)
        data_bytes = index(header.get("data_length") or 0)
        payload_bytes = index(header.get("payload_length") or 0)
    except (AttributeError, RecursionError, TypeError) as error:
        raise ValueError("expected a line with a JSON object") from error
    if min(data_bytes, payload_bytes) < 0 or data_bytes + payload_bytes > _MAX_BYTES:
        raise ValueError(f"expected data and payload of at most {_MAX_BYTES} bytes together")
    return line + await reader.readexactly(data_bytes + payload_bytes)


def _open(card_of: Callable[[object], ModelCard]) -> Opening:
    card = card_of(None)
    options = StreamOptions(language=card.language)
    return Opening(make=WyomingProtocol, card=card, options=options)


def routes() -> list[TcpRoute]:
    """Return the route, whose port ``wlk-serve --listen wyoming=10300`` opens."""
    return [TcpRoute(protocol="wyoming", open=_open, read=read_event, refuse=error_event)]
