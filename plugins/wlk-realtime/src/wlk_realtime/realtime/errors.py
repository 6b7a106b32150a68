"""Explain the failure of a connection in one line: the address, what happened, the remedy."""

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
    from wlk_realtime.realtime.address import ServerAccess

#: Errors of networks and servers, as opposed to bugs in this package.
EXPECTED_ERRORS = (
    OSError,  # includes TimeoutError and ssl.SSLError
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
_CERTIFICATE_ADVICE = (
    "use a host name that the certificate contains, renew the certificate, or pass the file of it "
    "or of its authority with: --option ca_file=FILE"
)
_CALL_AGAIN = "no audio is lost: call again to reconnect and continue"
_ADDRESS_ADVICE = "write the address as --model ws://HOST:PORT/v1/realtime"


def is_transient(error: Exception) -> bool:
    """Return whether connecting again in a moment can succeed."""
    if isinstance(error, InvalidStatus):
        return error.response.status_code in _BUSY
    if isinstance(error, ssl.SSLError):
        return False
    return isinstance(error, OSError | ConnectionClosed | EOFError | InvalidMessage)


def backend_error(error: Exception, access: ServerAccess) -> BackendError:
    """Return the BackendError to raise for *error*, which is one of EXPECTED_ERRORS."""
    if isinstance(error, ServerRefusalError):
        is_retryable = error.is_retryable
    else:
        is_protocol = isinstance(error, ServerMessageError | ProtocolError)
        is_retryable = is_protocol or is_transient(error)
    line = " ".join(_explain(error, access.key_variable).split())
    if access.key is not None:  # some servers echo it
        line = line.replace(access.key, "***")
    return BackendError(
        f"realtime: {access.address.url} {line}",
        retryable=is_retryable,
        is_exhausted=isinstance(error, TimeoutError),
    )


def _explain(error: Exception, key_variable: str) -> str:  # noqa: C901, PLR0911, PLR0912 -- a case for each error
    match error:
        case InvalidStatus():
            return _explain_status(error, key_variable)
        case InvalidMessage():
            return (
                f"does not speak HTTP: {shortened(str(error))}; {_ADDRESS_ADVICE}, or with "
                "wss:// if the server uses TLS"
            )
        case InvalidHandshake() | InvalidURI():
            return f"is not a realtime WebSocket: {shortened(str(error))}; {_ADDRESS_ADVICE}"
        case ssl.SSLCertVerificationError():
            reason = error.verify_message.rstrip(".")
            return f"has a certificate that is not trusted ({reason}); {_CERTIFICATE_ADVICE}"
        case ssl.SSLError():
            return (
                f"does not speak TLS as expected ({error.reason or error}); for a server without "
                "TLS, write the address with ws://"
            )
        case TimeoutError():
            return "did not answer in time; allow more with --option timeout_seconds=SECONDS"
        case socket.gaierror():
            return "has an unknown host name; check the address and the network"
        case ConnectionResetError() | BrokenPipeError():
            return (
                "closed the connection before it answered; check that it is running, and that the "
                "address begins with wss:// if it uses TLS and with ws:// if it does not"
            )
        case ConnectionRefusedError():
            return "refused the connection, so nothing listens there; start it with: wlk-serve"
        case ConnectionClosed(rcvd=frame) if frame is not None:
            reason = f", {shortened(frame.reason)}" if frame.reason else ""
            return f"closed the connection (code {frame.code}{reason}); {_CALL_AGAIN}"
        case ConnectionClosed() | EOFError():
            return f"closed the connection without a reason; {_CALL_AGAIN}"
        case ServerRefusalError():
            advice = _CALL_AGAIN if error.is_retryable else "choose another model or other options"
            return f"answered with an error, {error}; {advice}"
        case ServerMessageError() | ProtocolError():
            return f"sent an unexpected message: {error}; check that it is a realtime server"
    return f"could not be reached or was lost: {error}; check the address and that it is running"


def _explain_status(error: InvalidStatus, key_variable: str) -> str:
    status = error.response.status_code
    if status in _UNAUTHORIZED:
        return (
            f"refused the key (HTTP {status}); set the key for this server with: "
            f"export {key_variable}=..."
        )
    if status in _BUSY:
        return f"does not accept a session at the moment (HTTP {status}); try again later"
    if error.response.headers.get("Location"):
        return f"redirects (HTTP {status}), which is not followed; use the address it redirects to"
    return (
        f"answered HTTP {status} instead of opening a WebSocket; write the address with its path, "
        "as --model ws://HOST:PORT/v1/realtime"
    )
