"""The sockets of a server, bound before its model is loaded."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
import errno
import os
import socket
from typing import TYPE_CHECKING

from wlk_core.errors import WLKError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["bound_sockets"]


@contextmanager
def bound_sockets(host: str, port: int) -> Iterator[list[socket.socket]]:
    """
    Bind a socket to each address of *host* and close them at the end; none listens yet.

    A client is refused until the server listens, because a model may take minutes to load.  All
    addresses have the same port, also where *port* is 0 and the system picks it.

    Raises:
        WLKError: the host has no address on this machine, or another program has the port.

    """
    sockets: list[socket.socket] = []
    with ExitStack() as stack:
        try:
            for family, kind, protocol, _, address in socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            ):
                bound = stack.enter_context(socket.socket(family, kind, protocol))
                if os.name == "posix":  # else connections that just ended keep the port
                    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                port = port or (sockets[0].getsockname()[1] if sockets else 0)
                bound.bind((address[0], port, *address[2:]))
                sockets.append(bound)
        except OSError as error:
            raise WLKError(_refusal(host, port, error)) from error
        yield sockets


def _refusal(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"expected a free port, but another program uses {port} of {host}; "
            "choose another with --port, or 0 for any"
        )
    reason = error.strerror or str(error)
    return f"cannot listen on port {port} of {host}: {reason}; choose others with --host, --port"
