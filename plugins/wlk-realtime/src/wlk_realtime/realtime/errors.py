"""Failures of a connection as one line each: the address, what happened, and the remedy."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING

from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidMessage,
    InvalidStatus,
    InvalidURI,
    ProtocolError,
)

from wlk_core.plugins import BackendError
from wlk_realtime.engine.messages import ServerMessageError, ServerRefusalError, shortened

if TYPE_CHECKING:
    from wlk_realtime.realtime.address import Address

__all__ = ["EXPECTED_ERRORS", "backend_error", "is_transient"]

#: What a connection can raise without a mistake in this package.
EXPECTED_ERRORS = (
    OSError,  # TimeoutError and ssl.SSLError among them
    ConnectionClosed,
    EOFError,
    InvalidHandshake,
    InvalidURI,
    ProtocolError,
    ServerMessageError,
    ServerRefusalError,
)

_UNAUTHORIZED = frozenset({401, 403})
_BUSY = frozenset({408, 429, 500, 502, 503, 504})
_LOST = "no audio is lost: call again to connect again and go on"


def is_transient(error: Exception) -> bool:
    """Return whether another attempt to connect can succeed in a moment."""
    if isinstance(error, InvalidStatus):
        return error.response.status_code in _BUSY
    if isinstance(error, ssl.SSLError):
        return False
    return isinstance(error, OSError | ConnectionClosed | EOFError | InvalidMessage)


def backend_error(error: Exception, address: Address, *, key_variable: str) -> BackendError:
    """Return the BackendError to raise for *error*, one of EXPECTED_ERRORS."""
    line = " ".join(_message(error, key_variable).split())
    failure = BackendError(
        f"realtime: {address.url} {line}",
        retryable=_can_retry(error),
        is_exhausted=isinstance(error, TimeoutError),
    )
    failure.__cause__ = error
    return failure


def _can_retry(error: Exception) -> bool:
    if isinstance(error, ServerRefusalError):
        return error.is_retryable
    if isinstance(error, InvalidHandshake | InvalidURI | ssl.SSLError):
        return is_transient(error)
    return True


def _message(error: Exception, key_variable: str) -> str:  # noqa: C901, PLR0911 -- a case for each error
    match error:
        case InvalidStatus():
            return _status(error, key_variable)
        case InvalidHandshake() | InvalidURI():
            return (
                f"is no WebSocket of a realtime server: {shortened(str(error))}; write the "
                "address as --model ws://HOST:PORT/v1/realtime"
            )
        case ssl.SSLCertVerificationError():
            return (
                f"has a certificate that is not trusted ({error.verify_message}); use a name of "
                "the certificate, or set SSL_CERT_FILE to the file of its authority"
            )
        case ssl.SSLError():
            return (
                f"does not speak TLS as expected ({error.reason or error}); a server without TLS "
                "has an address that begins with ws://"
            )
        case TimeoutError():
            return "did not answer in time; allow more with --option timeout_seconds=SECONDS"
        case socket.gaierror():
            return "has a host name that is not known; check the address and the network"
        case ConnectionRefusedError():
            return "has no server: the connection was refused; start it with: wlk-serve"
        case ConnectionClosed() | EOFError():
            return f"closed the connection ({_closing(error)}); {_LOST}"
        case ServerRefusalError():
            advice = _LOST if error.is_retryable else "choose another model or other options"
            return f"answered with an error, {error}; {advice}"
        case ServerMessageError() | ProtocolError():
            return f"sent what no such server sends: {error}; check that it is a realtime server"
    return f"could not be reached or was lost: {error}; check the address and that the server runs"


def _closing(error: ConnectionClosed | EOFError) -> str:
    frame = error.rcvd if isinstance(error, ConnectionClosed) else None
    if frame is None:
        return "without a reason"
    return f"code {frame.code}{f', {shortened(frame.reason)}' if frame.reason else ''}"


def _status(error: InvalidStatus, key_variable: str) -> str:
    status = error.response.status_code
    if status in _UNAUTHORIZED:
        return (
            f"refused the key (HTTP {status}); set the key for this server with: "
            f"export {key_variable}=..."
        )
    if status in _BUSY:
        return f"takes no session now (HTTP {status}); try again later"
    if error.response.headers.get("Location"):
        return f"redirects (HTTP {status}), and audio goes to no other address; use that address"
    return (
        f"answered HTTP {status} where a WebSocket was expected; write the address with its path "
        "as --model ws://HOST:PORT/v1/realtime"
    )
