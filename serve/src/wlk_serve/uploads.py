"""Uploads: a form whose file is spooled to disk, within limits of size and of waiting."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from wlk_serve.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.datastructures import FormData
    from starlette.types import Message

__all__ = ["read_body", "read_form", "uploaded_file"]

_MAX_FIELDS = 100
_MAX_FIELD_BYTES = 1 << 20  # prompts and keywords
_WAIT_SECONDS = 30.0  # for the next part of a body


async def read_form(request: Request, max_bytes: int, use: Callable[[int], object]) -> FormData:
    """
    Return the form of *request*; its caller closes it.

    Args:
        request: whose body was not read yet.
        max_bytes: the size of the body.
        use: called with the size of each part of the body; may raise RequestError.

    Raises:
        RequestError: the body is larger than *max_bytes* (413), stops coming (408), or is no form
            of one file (400).

    """
    limited = _limited(request, max_bytes, use)
    try:
        return await limited.form(
            max_files=1, max_fields=_MAX_FIELDS, max_part_size=_MAX_FIELD_BYTES
        )
    except HTTPException as error:
        raise RequestError(
            f"expected a form of at most one file and {_MAX_FIELDS} fields: {error.detail}",
            code="invalid_form",
        ) from error


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Return the body of *request*; raises as `read_form` where it is too large or stops coming."""
    return await _limited(request, max_bytes, lambda _size: None).body()


def uploaded_file(form: FormData) -> UploadFile:
    """
    Return the recording.

    Raises:
        RequestError: no recording was sent, or an empty one.

    """
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise RequestError(
            "expected `file`, a recording, in a form of type multipart/form-data",
            code="missing_file",
            param="file",
        )
    if not file.size:
        raise RequestError("the recording is empty", code="invalid_audio", param="file")
    return file


def _limited(request: Request, max_bytes: int, use: Callable[[int], object]) -> Request:
    """Return *request* with a body of limited size."""
    length = request.headers.get("content-length", "0")
    if length.isascii() and length.isdigit() and int(length[:20]) > max_bytes:
        raise _too_large(max_bytes)
    received = 0

    async def receive() -> Message:
        nonlocal received
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                message = await request.receive()
        except TimeoutError:
            raise RequestError(
                f"no byte of the body came for {_WAIT_SECONDS:.0f} s", status=408, code="timeout"
            ) from None
        received += len(message.get("body", b""))
        if received > max_bytes:
            raise _too_large(max_bytes)
        use(len(message.get("body", b"")))
        return message

    return Request(request.scope, receive)


def _too_large(max_bytes: int) -> RequestError:
    return RequestError(
        f"the upload is larger than {max_bytes / 1e6:g} MB", status=413, code="file_too_large"
    )
