"""Bodies of requests, within limits of size and of waiting."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from wlk_serve.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from starlette.requests import Request
    from starlette.types import Message

__all__ = ["Upload", "read_body", "receive_body"]

_WAIT_SECONDS = 30.0  # for the next part of a body


class Upload:
    """
    A request with a body, which a shutdown may end.

    A complete body is still transcribed; another one gets 503, with which clients try again.
    """

    def __init__(self) -> None:
        self._wait: asyncio.Timeout | None = None  # for the next part
        self._is_ending = False
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self) -> None:
        """Take no more of the body."""
        self._is_ending = True
        if self._wait is not None:
            self._wait.reschedule(asyncio.get_running_loop().time())

    def close(self) -> None:
        """Give the transcription up."""
        if not self.closed.done():
            self.closed.set_result(None)

    async def receive(self, request: Request) -> Message:
        """Return the next part; raises RequestError when none comes (408) or may come (503)."""
        if self._is_ending:
            raise self.shutdown_error()
        try:
            async with asyncio.timeout(_WAIT_SECONDS) as self._wait:
                return await request.receive()
        except TimeoutError:
            if self._is_ending:
                raise self.shutdown_error() from None
            raise RequestError(
                f"no byte of the body came for {_WAIT_SECONDS:.0f} s", status=408, code="timeout"
            ) from None
        finally:
            self._wait = None

    @staticmethod
    def shutdown_error() -> RequestError:
        """Return the answer of a server that ends."""
        return RequestError(
            "the server shuts down", status=503, code="server_shutting_down", retry_after=5
        )


async def receive_body(
    request: Request,
    max_bytes: int,
    use: Callable[[int], object] = lambda _size: None,
    upload: Upload | None = None,
) -> AsyncGenerator[bytes]:
    """
    Yield the parts of the body of *request*.

    Args:
        request: whose body was not read yet.
        max_bytes: the size of the body.
        use: called with the size of each part; may raise RequestError.
        upload: what a shutdown ends.

    Raises:
        RequestError: the body is larger (413), stops coming (408), is ended by a shutdown (503), or
            the client left (499).

    """
    length = request.headers.get("content-length", "0")
    if length.isascii() and length.isdigit() and int(length[:20]) > max_bytes:
        raise _too_large(max_bytes)
    upload = upload or Upload()
    received = 0
    has_more = True
    while has_more:
        message = await upload.receive(request)
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
