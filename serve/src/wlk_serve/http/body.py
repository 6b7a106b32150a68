"""Receive the body of a request within limits of size and of waiting."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from wlk_serve.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.requests import Request

__all__ = ["body_parts"]

_WAIT_SECONDS = 30.0  # for the next part; a client that is slower than that is a proxy's business


async def body_parts(request: Request, max_bytes: int) -> AsyncGenerator[bytes]:
    """
    Yield the parts of the body of *request*, which was not read yet.

    Raises:
        RequestError: the body is larger (413), stops coming (408), or the client left (499).

    """
    too_large = RequestError(
        f"the upload is larger than {max_bytes / 1e6:g} MB", status=413, code="file_too_large"
    )
    length = request.headers.get("content-length", "0")
    if length.isascii() and length.isdigit() and int(length[:20]) > max_bytes:
        raise too_large
    received, has_more = 0, True
    while has_more:
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                message = await request.receive()
        except TimeoutError:
            reason = f"no byte of the body came for {_WAIT_SECONDS:.0f} s"
            raise RequestError(reason, status=408, code="timeout") from None
        if message["type"] == "http.disconnect":
            raise RequestError("the client left", status=499, code="client_closed_request")
        data: bytes = message.get("body", b"")
        received += len(data)
        if received > max_bytes:
            raise too_large
        has_more = message.get("more_body", False)
        yield data
