"""The servers of a backend: where each one is, what it declares, and how many streams it has."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    import ssl

    from wlk_realtime.realtime.address import Address
    from wlk_realtime.realtime.declaration import Declaration

__all__ = ["Endpoint", "Remote", "Server", "Source", "ranked"]

_AZURE = ".azure.com"
_LOST_SECONDS = 5.0  # a server that was lost is tried last for so long


@attrs.frozen(kw_only=True, eq=False)
class Endpoint:
    """
    Where a server listens.

    Attributes:
        address: its address.
        key: sent to it, None for none.
        tls: the authorities that certificates are checked with, None for those of the system.

    """

    address: Address
    key: str | None = attrs.field(default=None, repr=False)
    tls: ssl.SSLContext | None = attrs.field(default=None, repr=False)

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request, with the key; Azure reads it from one of its own."""
        if self.key is None:
            return {}
        headers = {"Authorization": f"Bearer {self.key}"}
        if self.address.host.endswith(_AZURE):
            headers["api-key"] = self.key
        return headers


class Source(Protocol):
    """
    What knows where a server listens.

    Attributes:
        name: the server as messages name it.
        key_variable: the environment variable with its key, for messages.

    """

    name: str
    key_variable: str

    def endpoint(self) -> Endpoint:
        """Return where the server listens now; raises ServerAwayError where it does not."""
        ...

    def suspect(self, endpoint: Endpoint, /) -> None:
        """Note that *endpoint* did not answer in time; return at once."""
        ...

    def diagnosed(self, error: Exception, endpoint: Endpoint, /) -> Exception:
        """Return *error* of a connection, or what is known to have caused it; may wait."""
        ...

    def close(self) -> None:
        """Release what belongs to the server."""
        ...


class Remote:
    """A server that runs elsewhere, at a fixed address."""

    def __init__(self, endpoint: Endpoint, *, key_variable: str) -> None:
        self.name = endpoint.address.url
        self.key_variable = key_variable
        self._endpoint = endpoint

    def endpoint(self) -> Endpoint:
        """Return its address."""
        return self._endpoint

    def suspect(self, _endpoint: Endpoint) -> None:
        """Do nothing: it cannot be started from here."""

    def diagnosed(self, error: Exception, _endpoint: Endpoint) -> Exception:
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
        streams: how many connections it has.
        is_other: whether it declares less than the backend, and so is not used.

    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.declaration: Declaration | None = None
        self.streams = 0
        self.is_other = False
        self._lost_until = -1.0  # of the monotonic clock

    @property
    def is_lost(self) -> bool:
        """Whether a connection to it failed a moment ago."""
        return time.monotonic() < self._lost_until

    def lose(self) -> None:
        """Note that a connection to it failed."""
        self._lost_until = time.monotonic() + _LOST_SECONDS

    def find(self) -> None:
        """Note that it was connected to."""
        self._lost_until = -1.0


def ranked(servers: tuple[Server, ...]) -> list[Server]:
    """Return *servers* in the order in which a stream tries them: the fewest streams first."""
    return sorted(servers, key=lambda server: (server.is_lost, server.streams))
