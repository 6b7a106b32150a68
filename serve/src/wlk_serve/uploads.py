"""Bodies of requests, within limits of size and of waiting."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from wlk_serve.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from starlette.requests import Request

__all__ = ["read_body", "receive_body"]

_WAIT_SECONDS = 30.0  # for the next part of a body


async def receive_body(
    request: Request, max_bytes: int, use: Callable[[int], object] = lambda _size: None
) -> AsyncGenerator[bytes]:
    """
    Yield the parts of the body of *request*.

    Args:
        request: whose body was not read yet.
        max_bytes: the size of the body.
        use: called with the size of each part; may raise RequestError.

    Raises:
        RequestError: the body is larger (413), stops coming (408), or the client left (499).

    """
    length = request.headers.get("content-length", "0")
    if length.isascii() and length.isdigit() and int(length[:20]) > max_bytes:
        raise _too_large(max_bytes)
    received = 0
    has_more = True
    while has_more:
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                message = await request.receive()
        except TimeoutError:
            raise RequestError(
                f"no byte of the body came for {_WAIT_SECONDS:.0f} s", status=408, code="timeout"
            ) from None
        if message["type"] == "http.disconnect":
            raise RequestError("the client left", status=499, code="client_closed_request")
        data: bytes = message.get("body", b"")
        received += len(data)
        if received > max_bytes:
            raise _too_large(max_bytes)
        use(len(data))
        yield data
        has_more = message.get("more_body", False)


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Return the body of *request*; raises as `receive_body`."""
    return b"".join([data async for data in receive_body(request, max_bytes)])


def _too_large(max_bytes: int) -> RequestError:
    return RequestError(
        f"the upload is larger than {max_bytes / 1e6:g} MB", status=413, code="file_too_large"
    )
