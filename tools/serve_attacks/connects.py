"""Thousands of connects that are refused, are no requests, or never become one."""

from __future__ import annotations

import asyncio
from collections import Counter
import random
from typing import TYPE_CHECKING

import attrs
from raw import exchange, request, upgrade

if TYPE_CHECKING:
    from collections.abc import Callable

    from server import ServerProcess

__all__ = ["KINDS", "connect_many"]

KEY = "secret"
_KEY = f"x-api-key: {KEY}"
_ATTACKERS = 200  # at a time
_HALF_SECONDS = 0.2  # that half of a request stays open
_TLS = bytes.fromhex("1603010200010001fc0303") + bytes(64)


@attrs.frozen
class Kind:
    """What is sent, and the status of its answer; 0 for none."""

    name: str
    status: int
    data: Callable[[int], bytes]

    async def attack(self, port: int) -> int:
        """Return the status that came."""
        seconds = 60.0 if self.status else _HALF_SECONDS
        answer = await exchange(port, self.data(port), seconds=seconds)
        return int(answer.split()[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def _http(name: str, status: int, *headers: str, path: str = "/v1/models") -> Kind:
    return Kind(name, status, lambda port: request(port, path, headers=headers))


def _socket(name: str, status: int, *headers: str, query: str = "") -> Kind:
    return Kind(name, status, lambda port: upgrade(port, query, headers))


KINDS = (
    _http("right request", 200, _KEY),
    _http("wrong key", 401, "x-api-key: wrong"),
    _http("no key", 401),
    _http("foreign Origin", 403, _KEY, "Origin: https://evil.example"),
    _http("rebinding Host", 403, _KEY, "Host: evil.example"),
    _http("rebinding Host with a port", 403, _KEY, "Host: 127.0.0.1.evil.example:80"),
    _http("path up", 404, _KEY, path="/page/../../../../etc/passwd"),
    _http("path up, encoded", 404, _KEY, path="/page/%2e%2e%2f%2e%2e%2fetc%2fpasswd"),
    _http("path up, twice encoded", 404, _KEY, path="/page/%252e%252e%252fapp.py"),
    _http("path with a NUL", 404, _KEY, path="/page/index.html%00.js"),
    _http("path with backslashes", 404, _KEY, path="/page/..\\..\\app.py"),
    _socket("socket, wrong key", 401, "x-api-key: wrong"),
    _socket("socket, foreign Origin", 403, _KEY, "Origin: https://evil.example"),
    _socket("socket, unknown model", 404, _KEY, query="?model=none"),
    _socket("socket, left at once", 101, _KEY),
    Kind("TLS", 400, lambda _port: _TLS),
    Kind("noise", 400, lambda _port: bytes(range(256)) * 8 + b"\r\n\r\n"),
    Kind("headers without an end", 400, lambda _port: b"GET / HTTP/1.1\r\na: " + b"a" * 100_000),
    Kind("half of a request", 0, lambda _port: b"GET /v1/models HTTP/1.1\r\nHost: 127"),
    Kind("nothing", 0, lambda _port: b""),
)


async def connect_many(
    server: ServerProcess, count: int, seed: int
) -> tuple[Counter[tuple[str, int]], list[str]]:
    """Connect *count* times; return how often each kind got each status, and what was wrong."""
    source = random.Random(seed)  # noqa: S311 -- an order, no secrets
    waiting = [KINDS[number % len(KINDS)] for number in range(count)]
    source.shuffle(waiting)
    found: Counter[tuple[str, int]] = Counter()
    problems: list[str] = []

    async def attack() -> None:
        while waiting:
            kind = waiting.pop()
            try:
                status = await kind.attack(server.port)
            except OSError as error:
                status, problem = -1, f"{type(error).__name__}: {error}"
                problems.append(f"{kind.name}: {problem}")
            found[kind.name, status] += 1
            if status not in {kind.status, -1}:
                problems.append(f"{kind.name}: expected {kind.status}, got {status}")

    await asyncio.gather(*(attack() for _ in range(_ATTACKERS)))
    return found, problems
