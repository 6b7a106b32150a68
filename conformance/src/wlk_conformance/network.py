"""
The network, made unreachable and watched.

pytest-socket does not serve here: the rule needs a list of the attempts, because a library may
catch the exception, and name lookups count as well.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
import os
import socket
from typing import TYPE_CHECKING, Any, NoReturn
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["network_blocked"]

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


@contextmanager
def network_blocked() -> Iterator[list[str]]:
    """Refuse every connection and name lookup of this process; yields the attempts."""
    attempts: list[str] = []

    def refuse(*args: Any, **_kwargs: Any) -> NoReturn:
        target = [str(arg) for arg in args if not isinstance(arg, socket.socket)]
        attempts.append(" ".join(target) or "a connection")
        raise OSError(f"the network is blocked by this rule: {attempts[-1]}")

    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, OFFLINE))
        for owner, name in (
            (socket.socket, "connect"),
            (socket.socket, "connect_ex"),
            (socket, "create_connection"),
            (socket, "getaddrinfo"),
        ):
            stack.enter_context(mock.patch.object(owner, name, refuse))
        yield attempts
