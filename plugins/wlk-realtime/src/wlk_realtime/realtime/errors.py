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
    from collections.abc import Mapping

__all__ = ["EXPECTED_ERRORS", "ServerAwayError", "backend_error", "is_transient"]


class ServerAwayError(Exception):
    """
    A server that this process starts is not there now.

    `is_over` where it is not started again.
    """

    def __init__(self, message: str, *, is_over: bool) -> None:
        super().__init__(message)
        self.is_over = is_over


#: What a connection can raise without a mistake in this package.
EXPECTED_ERRORS = (
    OSError,  # TimeoutError and ssl.SSLError among them
    ConnectionClosed,
    EOFError,
    InvalidHandshake,
    InvalidURI,
    ProtocolError,
    ServerAwayError,
    ServerMessageError,
    ServerRefusalError,
)

_UNAUTHORIZED = frozenset({401, 403})
_BUSY = frozenset({408, 429, 500, 502, 503, 504})
_HOSTNAME_MISMATCH, _ADDRESS_MISMATCH, _EXPIRED, _NOT_YET_VALID = 62, 64, 10, 9  # of X.509
_REMEDIES: Mapping[int, str] = {
    _HOSTNAME_MISMATCH: "write the address with a name of the certificate",
    _ADDRESS_MISMATCH: "write the address with a name of the certificate",
    _EXPIRED: "renew the certificate of the server",
    _NOT_YET_VALID: "check the clock of this machine",
}
_TRUST = "name the file of its authority, or of the certificate itself, with: --option ca_file=FILE"
_LOST = "no audio is lost: call again to connect again and go on"


def is_transient(error: Exception) -> bool:
    """Return whether another attempt to connect can succeed in a moment."""
    if isinstance(error, InvalidStatus):
        return error.response.status_code in _BUSY
    if isinstance(error, ServerAwayError):
        return not error.is_over
    if isinstance(error, ssl.SSLError):
        return False
    return isinstance(error, OSError | ConnectionClosed | EOFError | InvalidMessage)


def backend_error(error: Exception, server: str, *, key_variable: str) -> BackendError:
    """Return the BackendError to raise for *error*, one of EXPECTED_ERRORS, of a named server."""
    line = " ".join(_message(error, key_variable).split())
    failure = BackendError(
        f"realtime: {server} {line}",
        retryable=_can_retry(error),
        is_exhausted=isinstance(error, TimeoutError),
    )
    failure.__cause__ = error
    return failure


def _can_retry(error: Exception) -> bool:
    if isinstance(error, ServerRefusalError):
        return error.is_retryable
    if isinstance(error, InvalidHandshake | InvalidURI | ServerAwayError | ssl.SSLError):
        return is_transient(error)
    return True


def _message(error: Exception, key_variable: str) -> str:  # noqa: C901, PLR0911, PLR0912 -- a case for each error
    match error:
        case InvalidStatus():
            return _status(error, key_variable)
        case InvalidMessage():
            return (
                f"sends no HTTP: {shortened(str(error))}; write the address as --model "
                "ws://HOST:PORT/v1/realtime, or with wss:// where the server has TLS"
            )
        case InvalidHandshake() | InvalidURI():
            return (
                f"is no WebSocket of a realtime server: {shortened(str(error))}; write the "
                "address as --model ws://HOST:PORT/v1/realtime"
            )
        case ssl.SSLCertVerificationError():
            remedy = _REMEDIES.get(error.verify_code, _TRUST)
            reason = error.verify_message.rstrip(".")
            return f"has a certificate that is not trusted ({reason}); {remedy}"
        case ssl.SSLError() | ssl.SSLEOFError():
            return (
                f"does not speak TLS as expected ({error.reason or error}); a server without TLS "
                "has an address that begins with ws://"
            )
        case ServerAwayError():
            return f"{error}; {'load the backend again' if error.is_over else _LOST}"
        case TimeoutError():
            return "did not answer in time; allow more with --option timeout_seconds=SECONDS"
        case socket.gaierror():
            return "has a host name that is not known; check the address and the network"
        case ConnectionResetError() | BrokenPipeError():
            return (
                "closed the connection before it answered; check that it runs, and that the "
                "address begins with wss:// where it has TLS and with ws:// where it has none"
            )
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
