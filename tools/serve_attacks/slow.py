"""A client that reads one kilobyte a second, while it causes ten times as much."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING

import attrs
from raw import frame, upgrade
from websockets.client import ClientProtocol
from websockets.protocol import State
from websockets.uri import parse_uri

if TYPE_CHECKING:
    from collections.abc import Callable

    from server import Figures, ServerProcess

__all__ = ["SlowOutcome", "read_slowly"]

_BYTES_PER_SECOND = 1000
_MESSAGES_PER_SECOND = 20  # each is answered by about 600 bytes
_BUFFER_BYTES = 8192  # of the client's own socket
_MOST_SECONDS = 600


@attrs.define
class SlowOutcome:
    """What the client read, and the largest figures of the server meanwhile."""

    seconds: float = 0.0
    sent: int = 0
    messages: int = 0
    size: int = 0
    close_code: int | None = None
    figures: list[Figures] = attrs.field(factory=list)


def read_slowly(
    server: ServerProcess, watch: Callable[[str], object] = lambda _line: None
) -> SlowOutcome:
    """Read until the close frame; *watch* gets a line every half a minute."""
    found = SlowOutcome()
    protocol = ClientProtocol(parse_uri(server.url), max_size=None, state=State.OPEN)
    update = frame(json.dumps({"type": "session.update", "session": {}}))
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        client.connect(("127.0.0.1", server.port))
        client.sendall(upgrade(server.port, headers=[f"x-api-key: {server.key}"]))
        _take_answer(client)
        began = time.monotonic()
        client.settimeout(1.0)
        is_sending = True
        while found.close_code is None and time.monotonic() < began + _MOST_SECONDS:
            due = began + len(found.figures)
            time.sleep(max(0.0, due + 1 - time.monotonic()))
            try:
                for _ in range(_MESSAGES_PER_SECOND if is_sending else 0):
                    client.sendall(update)
                    found.sent += 1
            except OSError:
                is_sending = False  # the server does not read any more
            data = _read(client)
            if data is None:
                break
            found.size += len(data)
            found.seconds = time.monotonic() - began
            found.figures.append(server.figures)
            protocol.receive_data(data)
            found.messages += len(protocol.events_received())
            found.close_code = protocol.close_rcvd.code if protocol.close_rcvd else None
            if len(found.figures) % 30 == 0:
                watch(f"{found.seconds:.0f} s, {found.size} bytes read; {server.figures}")
    return found


def _read(client: socket.socket) -> bytes | None:
    """Return what came in a second at most; None at the end."""
    found = b""
    while len(found) < _BYTES_PER_SECOND:
        try:
            data = client.recv(_BYTES_PER_SECOND - len(found))
        except TimeoutError:
            return found
        except OSError:
            return None
        if not data:
            return found or None
        found += data
    return found


def _take_answer(client: socket.socket) -> None:
    """Read the answer to the handshake and no byte more."""
    found = b""
    while not found.endswith(b"\r\n\r\n"):
        found += client.recv(1)
