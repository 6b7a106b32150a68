"""Find out what a server supports, from its list of models or from a handshake."""

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
    from wlk_realtime.realtime.address import ServerAccess

_MAX_BYTES = 1 << 20  # of the list of models
_MAX_NUMBER = 1e6  # for quality bounds and delays in seconds
_VLLM_DELAY = 3.0  # seconds: the longest delay of Voxtral Realtime plus a word of several tokens


@attrs.frozen(kw_only=True)
class Declaration:
    """
    What a server supports; servers other than wlk-serve are known by their dialect alone.

    Attributes:
        backend: the name of its backend.
        capabilities: the capabilities of its backend.
        languages: the codes that its backend accepts or reports.
        max_delay: the `max_delay` of its backend, in seconds.
        bounds: the quality bounds of its backend.
        takes_prompt: whether a session can start with a prompt.
        recognises_digits: whether its model recognises spoken English digits.
        vocabulary: the words of a backend that reads coded audio; empty for any other.
        server: the result of the handshake; None for a wlk-serve.

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
        """Return a session with *model* in the dialect of the server."""
        if self.server is None:
            return MarksDialect(config, model=model)
        if isinstance(self.server, VllmServer):
            return VllmDialect(self.server)
        return OpenAiDialect(self.server)


async def fetch_declaration(access: ServerAccess, dialect: str) -> Declaration | None:
    """
    Return what the server at *access* declares; None if it is a wlk-serve without the model.

    A server other than wlk-serve declares nothing, so the handshake of a session is used instead.
    The caller sets a timeout.

    Args:
        access: where the server listens, and the model to use there.
        dialect: the dialect that the server must speak, "auto" for any.

    Raises:
        any of EXPECTED_ERRORS.

    """
    models = await _fetch_models(access)
    model = access.address.model
    if dialect != "vllm" and any(isinstance(entry.get("wlk"), dict) for entry in models):
        return _parse_declaration(models, model)
    entry = next((each for each in models if model is None or each.get("id") == model), {})
    name, length = entry.get("id"), entry.get("max_model_len")
    handshake = Handshake(
        dialect,
        model=model or (name if isinstance(name, str) else None),
        max_model_len=length if isinstance(length, int) and length > 0 else None,
    )
    await (await Connection.open(access, handshake)).close()
    return _infer_declaration(handshake.server)


async def _fetch_models(access: ServerAccess) -> list[dict[str, Any]]:
    """Return the server's list of models; empty if it has none or cannot be reached."""
    address = access.address
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", **access.headers}
    content = b""
    try:
        async with (
            httpx2.AsyncClient(
                verify=(access.tls or ssl.create_default_context())
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
        return []  # opening the WebSocket fails with a better message
    entries = table.get("data") if isinstance(table, dict) else None
    if not isinstance(entries, list):
        return []
    return [entry for entry in entries if isinstance(entry, dict)]


def _parse_declaration(models: list[dict[str, Any]], name: str | None) -> Declaration | None:
    """Return the declaration of the model *name*, by default of the first that has one."""
    for entry in models:
        declared = entry.get("wlk")
        if not isinstance(declared, dict) or (name is not None and entry.get("id") != name):
            continue
        if MARKS not in _strings(declared.get("include")):
            return None
        return Declaration(
            backend=str(declared.get("backend", "")),
            capabilities=frozenset(_strings(declared.get("capabilities"))),
            languages=_strings(declared.get("languages")),
            max_delay=_number(declared.get("max_delay")),
            bounds=_bounds(declared.get("bounds")),
            takes_prompt=declared.get("takes_prompt") is True,
            recognises_digits=declared.get("recognises_digits") is True,
            vocabulary=_strings(declared.get("vocabulary")),
        )
    return None


def _infer_declaration(server: ForeignServer) -> Declaration:
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


def _bounds(value: object) -> dict[str, float]:
    """Return those of the declared bounds that are numbers."""
    if not isinstance(value, dict):
        return {}
    numbers = {str(name): _number(bound) for name, bound in value.items()}
    return {name: number for name, number in numbers.items() if number is not None}


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(item for item in value if isinstance(item, str))


def _number(value: object) -> float | None:
    number = to_number(value)
    return number if number is not None and 0 < number <= _MAX_NUMBER else None
