"""Errors as OpenAI's error objects and HTTP statuses."""

from __future__ import annotations

from contextlib import contextmanager
import json
import logging
import re
import reprlib
import secrets
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from wlk_core.errors import AudioFormatError, BackendError, OptionError, StreamClosed, WLKError
from wlk_live.errors import SessionOverloaded

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOGGER = logging.getLogger(__name__)
_TOO_MANY = 429
_INTERNAL = 500
_PATH_PART = re.compile(r"\.([^.\[]+)|\[(\d+)\]")  # of msgspec's paths, such as $.include[0]


class RequestError(WLKError):
    """
    A request that cannot be answered, in the shape that OpenAI's clients read.

    Attributes:
        status: the HTTP status code.
        code: a word for programs, such as "model_not_found", or None.
        param: the name of the wrong field, or None.
        retry_after: seconds after which a new attempt may succeed; None if none can.

    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        code: str | None = None,
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.retry_after = retry_after

    @property
    def type(self) -> str:
        """The error's class in OpenAI's API."""
        if self.status == _TOO_MANY:
            return "rate_limit_error"
        return "server_error" if self.status >= _INTERNAL else "invalid_request_error"

    def record(self) -> dict[str, Any]:
        """Return the error object: message, type, param and code."""
        return {"message": str(self), "type": self.type, "param": self.param, "code": self.code}


def invalid(
    param: str, expected: str, found: str = "", *, code: str = "invalid_value"
) -> RequestError:
    """Return an error about the field *param*; *found* describes the value that came."""
    message = f"expected `{param}` {expected}" + (f", got {found}" if found else "")
    return RequestError(message, code=code, param=param)


def converted(value: Any, kind: Any, name: str = "", *, is_text: bool = False) -> Any:
    """
    Convert *value*, decoded JSON in the field *name* of a message, to the type *kind*.

    If the value *is_text*, numbers and booleans are read from strings.

    Raises:
        RequestError: a field has a wrong value; the message names its path.

    """
    try:
        return msgspec.convert(value, kind, strict=not is_text)
    except UnicodeEncodeError:
        raise invalid(name, "valid Unicode", reprlib.repr(value)) from None
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        path = path.rstrip("`").partition("[...]")[0]  # which stands for any key of a dictionary
        for field, index in _PATH_PART.findall(path):
            value = value[int(index)] if index else value[field]
        reason = message.partition(", got ")[0]
        param = f"{name}{path}".lstrip(".") or "body"
        raise RequestError(
            f"`{param}`: {reason[0].lower()}{reason[1:]}, got {reprlib.repr(value)}",
            code="invalid_value",
            param=param,
        ) from None


def shutdown_error() -> RequestError:
    """Return the answer of a server that is shutting down."""
    return RequestError(
        "the server is shutting down", status=503, code="server_shutting_down", retry_after=5
    )


@contextmanager
def contained() -> Iterator[None]:
    """Turn a SystemExit, with which a plugin would end the event loop, into a RuntimeError."""
    try:
        yield
    except SystemExit as error:
        raise RuntimeError(f"a plugin raised SystemExit({error})") from error


def as_failure(error: BaseException) -> WLKError:
    """
    Return whatever a plugin raised as an error of the core.

    A Rust panic is not an `Exception`, and a SystemExit would end the event loop that receives it.
    """
    if isinstance(error, WLKError):
        return error
    failure = BackendError(f"the engine raised {type(error).__name__}: {error}", retryable=False)
    failure.__cause__ = error
    return failure


def as_request_error(error: Exception) -> RequestError:
    """Return the answer to *error*; the answer to an unexpected error discloses no detail."""
    message = " ".join(str(error).split())
    match error:
        case RequestError():
            return error
        case SessionOverloaded() | StreamClosed():
            return RequestError(message, status=503, code="server_overloaded", retry_after=5)
        case AudioFormatError():
            return RequestError(message, code="invalid_audio", param="file")
        case OptionError():
            return RequestError(message, code="invalid_value")
        case BackendError():
            # Clients do not get the message, because it may name files and machines.
            _LOGGER.warning("%s", message, exc_info=error)
            message = "the engine failed; the server's log has the cause"
            return RequestError(message, status=_INTERNAL, code="engine_failed")
    return RequestError("the server failed", status=_INTERNAL, code="internal_error")


def error_response(error: RequestError) -> Response:
    """Return the HTTP response to a refused request, with a request id."""
    headers = {"x-request-id": f"req_{secrets.token_hex(12)}"}
    if error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    # Escaped, because a message may quote text that is not valid Unicode.
    body = json.dumps({"error": error.record()})
    return Response(body, error.status, headers, media_type="application/json")
