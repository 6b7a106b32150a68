"""Find out what a server can do: from its list of models, or from a handshake with it."""

from __future__ import annotations

import json
import ssl
from typing import TYPE_CHECKING, Any

import attrs
import httpx2

from wlk_realtime.engine.handshake import Handshake
from wlk_realtime.engine.marks import MARKS, MarksDialect
from wlk_realtime.engine.messages import to_number
from wlk_realtime.engine.openai import OpenAiDialect
from wlk_realtime.engine.vllm import VllmDialect, VllmServer
from wlk_realtime.realtime.connection import Connection

if TYPE_CHECKING:
    from wlk_realtime.engine.handshake import ForeignServer
    from wlk_realtime.engine.requests import Dialect, SessionConfig
    from wlk_realtime.realtime.address import Endpoint

_MAX_BYTES = 1 << 20
_MAX_NUMBER = 1e6  # of a bound, or of seconds
_VLLM_DELAY = 3.0  # seconds: the longest delay of Voxtral Realtime, and the pieces of a word


@attrs.frozen(kw_only=True)
class Declaration:
    """
    What is known of a server; only a wlk-serve declares more than its dialect.

    Attributes:
        backend: the name of its backend.
        capabilities: those of its backend.
        languages: the codes that its backend takes or reports.
        max_delay: that of its backend, in seconds.
        bounds: those of its backend.
        takes_prompt: whether a session takes text before its audio.
        recognises_digits: whether its model recognises spoken English digits.
        vocabulary: the words of a backend that reads coded audio; empty for any other.
        server: what the handshake with any other server showed; None for a wlk-serve.

    """

    backend: str = ""
    capabilities: frozenset[str] = frozenset()
    languages: tuple[str, ...] = ()
    max_delay: float | None = None
    bounds: dict[str, float] = attrs.field(factory=dict)
    takes_prompt: bool = False
    recognises_digits: bool = False
    vocabulary: tuple[str, ...] = ()
    server: ForeignServer | None = None

    def new_dialect(self, config: SessionConfig, *, model: str | None) -> Dialect:
        """Return a session of *model* in the messages of the server."""
        if self.server is None:
            return MarksDialect(config, model=model)
        if isinstance(self.server, VllmServer):
            return VllmDialect(self.server)
        return OpenAiDialect(self.server)


async def fetch_declaration(endpoint: Endpoint, dialect: str) -> Declaration | None:
    """
    Return what the server at *endpoint* declares, None where it lacks the model.

    A server that is not a wlk-serve is connected to, and declares what the handshake shows.  The
    caller bounds the time.

    Args:
        endpoint: where it listens, and which model is to run.
        dialect: the messages that it must speak, "auto" for any.

    Raises:
        one of EXPECTED_ERRORS.

    """
    models = await _fetch_models(endpoint)
    model = endpoint.address.model
    if dialect != "vllm" and any(isinstance(entry.get("wlk"), dict) for entry in models):
        return _declaration_of(models, model)
    entry = next((each for each in models if model is None or each.get("id") == model), {})
    name, length = entry.get("id"), entry.get("max_model_len")
    handshake = Handshake(
        dialect,
        model=model or (name if isinstance(name, str) else None),
        max_model_len=length if isinstance(length, int) and length > 0 else None,
    )
    await (await Connection.open(endpoint, handshake)).close()
    return _declaration_by(handshake.server)


async def _fetch_models(endpoint: Endpoint) -> list[dict[str, Any]]:
    """Return the list of models of the server; empty where it has none, or cannot be reached."""
    address = endpoint.address
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", **endpoint.headers}
    content = b""
    try:
        async with (
            httpx2.AsyncClient(
                verify=(endpoint.tls or ssl.create_default_context())
                if address.is_encrypted
                else False,
                trust_env=not address.is_local,
                timeout=None,
            ) as client,
            client.stream(
                "GET", f"{address.origin}{address.models_path}", headers=headers
            ) as answer,
        ):
            if answer.status_code == httpx2.codes.OK:
                async for part in answer.aiter_raw():
                    content += part
                    if len(content) > _MAX_BYTES:
                        break
        table = json.loads(content)
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, RecursionError):
        return []  # the WebSocket has the better message
    entries = table.get("data") if isinstance(table, dict) else None
    return [e for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []


def _declaration_of(models: list[dict[str, Any]], name: str | None) -> Declaration | None:
    """Return what the model *name* declares, or the first one that declares anything."""
    for entry in models:
        declared = entry.get("wlk")
        if not isinstance(declared, dict) or (name is not None and entry.get("id") != name):
            continue
        bounds = declared.get("bounds")
        pairs = bounds.items() if isinstance(bounds, dict) else ()
        if MARKS not in _strings(declared.get("include")):
            return None
        return Declaration(
            backend=str(declared.get("backend", "")),
            capabilities=frozenset(_strings(declared.get("capabilities"))),
            languages=_strings(declared.get("languages")),
            max_delay=_number(declared.get("max_delay")),
            bounds={str(key): n for key, value in pairs if (n := _number(value)) is not None},
            takes_prompt=declared.get("takes_prompt") is True,
            recognises_digits=declared.get("recognises_digits") is True,
            vocabulary=_strings(declared.get("vocabulary")),
        )
    return None


def _declaration_by(server: ForeignServer) -> Declaration:
    if not isinstance(server, VllmServer):
        return Declaration(backend="openai", server=server)
    if not server.is_timed:
        return Declaration(backend=server.model, server=server)
    capabilities = {"hypothesis", "word-times"}
    if server.max_generation_steps is not None:
        capabilities.add("bounded-state")
    return Declaration(
        backend=server.model,
        capabilities=frozenset(capabilities),
        max_delay=_VLLM_DELAY,
        server=server,
    )


def _strings(value: object) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()


def _number(value: object) -> float | None:
    number = to_number(value)
    return number if number is not None and 0 < number <= _MAX_NUMBER else None
