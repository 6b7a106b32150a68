"""The servers of a backend: where each one is, what it declares, and how many streams it has."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_realtime.realtime.address import Endpoint
    from wlk_realtime.realtime.child import Child
    from wlk_realtime.realtime.declaration import Declaration

    Source: TypeAlias = "Remote | Child"

__all__ = ["Remote", "Server", "ranked"]

_DOWN_SECONDS = 5.0  # a server that was lost is tried last for so long


class Remote:
    """
    A server that runs elsewhere, at a fixed address; has the methods of a Child.

    Attributes:
        name: the server as messages name it.
        key_variable: the environment variable with its key, for messages.

    """

    def __init__(self, endpoint: Endpoint, *, key_variable: str) -> None:
        self.name = endpoint.address.url
        self.key_variable = key_variable
        self._endpoint = endpoint

    def endpoint(self) -> Endpoint:
        """Return its address."""
        return self._endpoint

    def explain_failure(self, error: Exception, _endpoint: Endpoint) -> Exception:
        """Return *error*: more is not known."""
        return error

    def close(self) -> None:
        """Do nothing."""


class Server:
    """
    A server and the streams that it has; used in one event loop but for `declaration`.

    Attributes:
        source: where it is.
        declaration: what it declares, None while it was not reached.
        clients: the streams that are connected to it.
        is_excluded: whether it declares less than the backend, and so is not used.

    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.declaration: Declaration | None = None
        self.clients: set[object] = set()
        self.is_excluded = False
        self._down_until = -1.0  # of the monotonic clock

    @property
    def is_down(self) -> bool:
        """Whether a connection to it failed a moment ago."""
        return time.monotonic() < self._down_until

    def mark_down(self) -> None:
        """Note that a connection to it failed."""
        self._down_until = time.monotonic() + _DOWN_SECONDS

    def mark_up(self) -> None:
        """Note that it was connected to."""
        self._down_until = -1.0


def ranked(servers: Iterable[Server]) -> list[Server]:
    """Return *servers* in the order in which a stream tries them: the fewest streams first."""
    return sorted(servers, key=lambda server: (server.is_down, len(server.clients)))
