"""The first connection to a server that is no wlk-serve, and what is declared for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from wlk_realtime.engine.handshake import Handshake
from wlk_realtime.engine.vllm.server import VllmServer
from wlk_realtime.realtime.connection import Connection
from wlk_realtime.realtime.declaration import Declaration

if TYPE_CHECKING:
    from wlk_realtime.engine.handshake import Server
    from wlk_realtime.realtime.server import Endpoint

__all__ = ["declaration_by", "greeted", "handshake_of"]

_MAX_DELAY = 3.0  # seconds: the longest delay of Voxtral Realtime, and the pieces of a word


def handshake_of(models: list[dict[str, Any]], dialect: str, *, model: str | None) -> Handshake:
    """Return the handshake with the server that lists *models*; it runs *model* or the first."""
    named = [entry for entry in models if model is None or entry.get("id") == model]
    entry = named[0] if named else {}
    name = entry.get("id")
    length = entry.get("max_model_len")
    return Handshake(
        dialect,
        model=model or (name if isinstance(name, str) else None),
        max_model_len=length if isinstance(length, int) and length > 0 else None,
    )


async def greeted(
    endpoint: Endpoint, handshake: Handshake, *, timeout_seconds: float
) -> Declaration:
    """
    Return what a server declares by its answers, on a connection that is closed again.

    Raises:
        one of EXPECTED_ERRORS.

    """
    async with asyncio.timeout(timeout_seconds):
        connection = await Connection.open(endpoint, handshake)
    await connection.close()
    return declaration_by(handshake.server)


def declaration_by(server: Server) -> Declaration:
    """Return what is known of a server; only what the handshake showed."""
    if not isinstance(server, VllmServer):
        return Declaration(backend="openai", server=server)
    if not server.is_timed:
        return Declaration(backend=server.model, server=server)
    capabilities = {"hypothesis", "word-times"}
    if server.longest_generation is not None:
        capabilities.add("bounded-state")
    return Declaration(
        backend=server.model,
        capabilities=frozenset(capabilities),
        max_delay=_MAX_DELAY,
        server=server,
    )
