"""Whether a wlk-serve still answers: one that hangs accepts connections, and nothing more."""

from __future__ import annotations

from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wlk_realtime.realtime.server import Endpoint

__all__ = ["answers"]

_PATH = "/livez"  # answered while the process runs, however busy its engine is


def answers(endpoint: Endpoint, *, timeout: float) -> bool:
    """
    Return whether the server at *endpoint*, of this machine and without TLS, still answers.

    Any status is an answer, because a wlk-serve of an older version may lack the path.

    Args:
        endpoint: where it listens.
        timeout: seconds to connect, and again for the answer.

    """
    connection = HTTPConnection(endpoint.address.host, endpoint.address.port, timeout=timeout)
    try:
        connection.request("GET", _PATH)
        connection.getresponse()
    except (OSError, HTTPException):
        return False
    else:
        return True
    finally:
        connection.close()
