"""What a server declares about itself in its list of models."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from typing import TYPE_CHECKING, Any

import attrs

from wlk_realtime.engine.marks import MARKS, MarksDialect
from wlk_realtime.engine.messages import to_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_realtime.engine.exchange import Dialect, SessionConfig
    from wlk_realtime.engine.handshake import Server
    from wlk_realtime.realtime.server import Endpoint

__all__ = ["Declaration", "common_declaration", "declaration_of", "fetch_models", "is_wlk_serve"]

_MOST_BYTES = 1 << 20
_PIECE_BYTES = 1 << 16
_OK = 200
_LARGEST = 1e6  # of a bound, or of seconds


@attrs.frozen(kw_only=True)
class Declaration:
    """
    What is known of a server; only a wlk-serve declares more than its dialect.

    Attributes:
        has_marks: whether it is a wlk-serve.
        backend: the name of its backend.
        capabilities: those of its backend.
        languages: the codes that its backend takes or reports.
        max_delay: that of its backend, in seconds.
        bounds: those of its backend.
        takes_prompt: whether a session takes text before its audio.
        recognises_digits: whether its model recognises spoken English digits.
        vocabulary: the words of a backend that reads coded audio; empty for any other.
        server: what the handshake with a server showed that is no wlk-serve; None for a wlk-serve.

    """

    has_marks: bool = False
    backend: str = ""
    capabilities: frozenset[str] = frozenset()
    languages: tuple[str, ...] = ()
    max_delay: float | None = None
    bounds: dict[str, float] = attrs.field(factory=dict)
    takes_prompt: bool = False
    recognises_digits: bool = False
    vocabulary: tuple[str, ...] = ()
    server: Server | None = None

    def new_dialect(self, config: SessionConfig, *, model: str | None) -> Dialect:
        """Return a session of *model* in the messages of the server."""
        if self.server is None:
            return MarksDialect(config, model=model)
        return self.server.open()

    def has(self, other: Declaration) -> bool:
        """Return whether a stream of *other* can go on at this server."""
        return (
            self.has_marks >= other.has_marks
            and self.capabilities >= other.capabilities
            and set(self.languages) >= set(other.languages)
            and self.takes_prompt >= other.takes_prompt
            and self.vocabulary == other.vocabulary
        )


def common_declaration(declarations: Sequence[Declaration]) -> Declaration:
    """Return what every one of *declarations* declares; at least one."""
    first = declarations[0]
    if len(declarations) == 1:
        return first
    delays = [each.max_delay for each in declarations if each.max_delay is not None]
    names = set(first.bounds).intersection(*(each.bounds for each in declarations))
    vocabularies = {each.vocabulary for each in declarations}
    return Declaration(
        has_marks=all(each.has_marks for each in declarations),
        backend=", ".join(dict.fromkeys(each.backend for each in declarations)),
        capabilities=frozenset.intersection(*(each.capabilities for each in declarations)),
        languages=tuple(
            code for code in first.languages if all(code in each.languages for each in declarations)
        ),
        max_delay=max(delays) if len(delays) == len(declarations) else None,
        bounds={name: max(each.bounds[name] for each in declarations) for name in sorted(names)},
        takes_prompt=all(each.takes_prompt for each in declarations),
        recognises_digits=all(each.recognises_digits for each in declarations),
        vocabulary=first.vocabulary if len(vocabularies) == 1 else (),
    )


def fetch_models(endpoint: Endpoint, *, timeout: float) -> list[dict[str, Any]]:
    """
    Return the list of models of the server; empty where it has none.

    Raises:
        OSError: there is no server, or it did not answer within *timeout* seconds.

    """
    deadline = time.monotonic() + timeout
    address = endpoint.address
    connection = (
        http.client.HTTPSConnection(
            address.host,
            address.port,
            timeout=timeout,
            context=endpoint.tls or ssl.create_default_context(),
        )
        if address.is_encrypted
        else http.client.HTTPConnection(address.host, address.port, timeout=timeout)
    )
    try:
        headers = {"Accept": "application/json", **endpoint.headers}
        connection.request("GET", address.models_path, headers=headers)
        answer = connection.getresponse()
        body = b""
        while len(body) <= _MOST_BYTES and (piece := answer.read1(_PIECE_BYTES)):
            body += piece
            if time.monotonic() > deadline:
                raise TimeoutError
        return _models(body) if answer.status == _OK else []
    except http.client.HTTPException:
        return []  # no HTTP, or half of it: the WebSocket has the better message
    finally:
        connection.close()


def declaration_of(models: list[dict[str, Any]], name: str | None) -> Declaration:
    """Return what the model *name* declares, or the first one that declares anything."""
    for entry in models:
        declared = entry.get("wlk")
        if not isinstance(declared, dict) or (name is not None and entry.get("id") != name):
            continue
        return Declaration(
            has_marks=MARKS in _texts(declared.get("include")),
            backend=str(declared.get("backend", "")),
            capabilities=frozenset(_texts(declared.get("capabilities"))),
            languages=_texts(declared.get("languages")),
            max_delay=_number(declared.get("max_delay")),
            bounds=_numbers(declared.get("bounds")),
            takes_prompt=declared.get("takes_prompt") is True,
            recognises_digits=declared.get("recognises_digits") is True,
            vocabulary=_texts(declared.get("vocabulary")),
        )
    return Declaration()


def is_wlk_serve(models: list[dict[str, Any]]) -> bool:
    """Return whether a list of models is that of a wlk-serve."""
    return any(isinstance(entry.get("wlk"), dict) for entry in models)


def _models(body: bytes) -> list[dict[str, Any]]:
    try:
        table = json.loads(body)
    except (ValueError, RecursionError):
        return []
    entries = table.get("data") if isinstance(table, dict) else None
    return [e for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []


def _texts(value: object) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()


def _number(value: object) -> float | None:
    number = to_number(value)
    return number if number is not None and 0 < number <= _LARGEST else None


def _numbers(value: object) -> dict[str, float]:
    pairs = value.items() if isinstance(value, dict) else ()
    found = {str(name): _number(number) for name, number in pairs}
    return {name: number for name, number in found.items() if number is not None}
