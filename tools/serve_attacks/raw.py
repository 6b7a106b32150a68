"""Clients without a library: bytes on sockets, as an attacker sends them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["exchange", "frame", "request", "upgrade"]

_WAIT_SECONDS = 60


def request(
    port: int, path: str = "/v1/models", method: str = "GET", headers: Iterable[str] = ()
) -> bytes:
    """Return a request of HTTP; *headers* replace the Host if they name one."""
    lines = [f"{method} {path} HTTP/1.1", *headers, "Connection: close"]
    if not any(line.lower().startswith("host:") for line in lines):
        lines.append(f"Host: 127.0.0.1:{port}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def upgrade(port: int, query: str = "", headers: Iterable[str] = ()) -> bytes:
    """Return a request for a WebSocket."""
    lines = [
        f"GET /v1/realtime{query} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def frame(text: str) -> bytes:
    """Return a masked frame of a text of up to 65,535 bytes."""
    data = text.encode()
    return struct.pack("!BBH", 0x81, 0x80 | 126, len(data)) + bytes(4) + data


async def exchange(port: int, data: bytes, *, seconds: float = _WAIT_SECONDS) -> bytes:
    """Send *data* and return the beginning of the answer; nothing where the server only closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = b""
    try:
        with suppress(OSError):
            writer.write(data)
            await writer.drain()
            async with asyncio.timeout(seconds):
                found = await reader.read(65_536)
    finally:
        _reset(writer)
    return found


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close at once, without waiting states that would use up the ports."""
    found: socket.socket | None = writer.get_extra_info("socket")
    if found is not None:
        with suppress(OSError):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
