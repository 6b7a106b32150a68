"""Turn failures of a connection into one line each: the address, what happened, the remedy."""

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
    from wlk_realtime.realtime.address import Endpoint

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
_TRUST = (
    "write the address with a name of the certificate, renew it, or name the file of its authority "
    "or of the certificate itself with: --option ca_file=FILE"
)
_LOST = "no audio is lost: call again to connect again and go on"
_WRITE = "write the address as --model ws://HOST:PORT/v1/realtime"


def is_transient(error: Exception) -> bool:
    """Return whether another attempt to connect can succeed in a moment."""
    if isinstance(error, InvalidStatus):
        return error.response.status_code in _BUSY
    if isinstance(error, ssl.SSLError):
        return False
    return isinstance(error, OSError | ConnectionClosed | EOFError | InvalidMessage)


def backend_error(error: Exception, endpoint: Endpoint) -> BackendError:
    """Return the BackendError to raise for *error*, one of EXPECTED_ERRORS."""
    if isinstance(error, ServerRefusalError):
        is_retryable = error.is_retryable
    else:
        is_protocol = isinstance(error, ServerMessageError | ProtocolError)
        is_retryable = is_protocol or is_transient(error)
    line = " ".join(_explain(error, endpoint.key_variable).split())
    if endpoint.key is not None:  # some servers repeat it
        line = line.replace(endpoint.key, "***")
    return BackendError(
        f"realtime: {endpoint.address.url} {line}",
        retryable=is_retryable,
        is_exhausted=isinstance(error, TimeoutError),
    )


def _explain(error: Exception, key_variable: str) -> str:  # noqa: C901, PLR0911, PLR0912 -- a case for each error
    match error:
        case InvalidStatus():
            return _explain_status(error, key_variable)
        case InvalidMessage():
            return (
                f"does not speak HTTP: {shortened(str(error))}; {_WRITE}, or with wss:// where the "
                "server has TLS"
            )
        case InvalidHandshake() | InvalidURI():
            return f"is not the WebSocket of a realtime server: {shortened(str(error))}; {_WRITE}"
        case ssl.SSLCertVerificationError():
            reason = error.verify_message.rstrip(".")
            return f"has a certificate that is not trusted ({reason}); {_TRUST}"
        case ssl.SSLError():
            return (
                f"does not speak TLS as expected ({error.reason or error}); a server without TLS "
                "has an address that begins with ws://"
            )
        case TimeoutError():
            return "did not answer in time; allow more with --option timeout_seconds=SECONDS"
        case socket.gaierror():
            return "has an unknown host name; check the address and the network"
        case ConnectionResetError() | BrokenPipeError():
            return (
                "closed the connection before it answered; check that it runs, and that the "
                "address begins with wss:// where it has TLS and with ws:// where it has none"
            )
        case ConnectionRefusedError():
            return "refused the connection, so nothing listens there; start it with: wlk-serve"
        case ConnectionClosed(rcvd=frame) if frame is not None:
            reason = f", {shortened(frame.reason)}" if frame.reason else ""
            return f"closed the connection (code {frame.code}{reason}); {_LOST}"
        case ConnectionClosed() | EOFError():
            return f"closed the connection (without a reason); {_LOST}"
        case ServerRefusalError():
            advice = _LOST if error.is_retryable else "choose another model or other options"
            return f"answered with an error, {error}; {advice}"
        case ServerMessageError() | ProtocolError():
            return f"sent what no such server sends: {error}; check that it is a realtime server"
    return f"could not be reached or was lost: {error}; check the address and that the server runs"


def _explain_status(error: InvalidStatus, key_variable: str) -> str:
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
