"""Receive the body of a request within limits of size and of waiting."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from wlk_serve.errors import RequestError, shutdown_error

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from starlette.requests import Request
    from starlette.types import Message

__all__ = ["Upload", "read_body"]

_WAIT_SECONDS = 30.0  # for the next part; a client that is slower than that is a proxy's business


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

    async def parts(
        self,
        request: Request,
        max_bytes: int,
        use: Callable[[int], object] = lambda _size: None,
    ) -> AsyncGenerator[bytes]:
        """
        Yield the parts of the body of *request*.

        Args:
            request: whose body was not read yet.
            max_bytes: the size of the body.
            use: called with the size of each part; may raise RequestError.

        Raises:
            RequestError: the body is larger (413), stops coming (408), is ended by a shutdown
                (503), or the client left (499).

        """
        too_large = RequestError(
            f"the upload is larger than {max_bytes / 1e6:g} MB", status=413, code="file_too_large"
        )
        length = request.headers.get("content-length", "0")
        if length.isascii() and length.isdigit() and int(length[:20]) > max_bytes:
            raise too_large
        received = 0
        has_more = True
        while has_more:
            message = await self._receive(request)
            if message["type"] == "http.disconnect":
                raise RequestError("the client left", status=499, code="client_closed_request")
            data: bytes = message.get("body", b"")
            received += len(data)
            if received > max_bytes:
                raise too_large
            use(len(data))
            has_more = message.get("more_body", False)
            yield data

    async def _receive(self, request: Request) -> Message:
        if self._is_ending:
            raise shutdown_error()
        try:
            # Twice: after the process was frozen, the time is over before anything was read.
            for _ in range(2):
                with suppress(TimeoutError):
                    async with asyncio.timeout(_WAIT_SECONDS / 2) as self._wait:
                        return await request.receive()
                if self._is_ending:
                    raise shutdown_error()
            raise RequestError(
                f"no byte of the body came for {_WAIT_SECONDS:.0f} s", status=408, code="timeout"
            )
        finally:
            self._wait = None


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Return the body of *request*; raises as `Upload.parts`."""
    return b"".join([data async for data in Upload().parts(request, max_bytes)])
