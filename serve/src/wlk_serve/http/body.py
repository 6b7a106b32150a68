"""Bodies of requests, within limits of size, of waiting and of slowness."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from wlk_serve.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from starlette.requests import Request
    from starlette.types import Message

__all__ = ["LeastRate", "Upload", "read_body", "receive_body"]

_WAIT_SECONDS = 30.0  # for the next part of a body
# A recording may be sent while it is spoken, and digital silence is a few dozen bytes a second in
# FLAC and in Opus with discontinuous transmission; Apache's mod_reqtimeout expects 500 by default.
_LEAST_RATE = 10  # bytes a second
_RATE_SECONDS = 60.0  # of waiting, over which the rate is averaged


class LeastRate:
    """
    Checks that a client sends enough while the server waits for it, whatever the server does else.

    The average is that of a minute, not of the whole body: a fast beginning is no excuse for a
    trickle that keeps a place for days.
    """

    def __init__(self) -> None:
        self._seconds = 0.0
        self._bytes = 0

    def add(self, seconds: float, size: int) -> None:
        """
        Count a part of *size* bytes for which the server waited *seconds*.

        Raises:
            RequestError: less than the least rate came in the last minute of waiting.

        """
        self._seconds += seconds
        self._bytes += size
        if self._seconds < _RATE_SECONDS:
            return
        if self._bytes < _LEAST_RATE * self._seconds:
            raise RequestError(
                f"{self._bytes} bytes of the body came in {self._seconds:.0f} s, less than "
                f"{_LEAST_RATE} a second; send faster",
                status=408,
                code="timeout",
            )
        self._seconds, self._bytes = 0.0, 0


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
    *,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncGenerator[bytes]:
    """
    Yield the parts of the body of *request*.

    Args:
        request: whose body was not read yet.
        max_bytes: the size of the body.
        use: called with the size of each part; may raise RequestError.
        upload: what a shutdown ends.
        clock: returns seconds that never go back.

    Raises:
        RequestError: the body is larger (413), stops coming or comes too slowly (408), is ended by
            a shutdown (503), or the client left (499).

    """
    length = request.headers.get("content-length", "0")
    if length.isascii() and length.isdigit() and int(length[:20]) > max_bytes:
        raise _too_large(max_bytes)
    upload = upload or Upload()
    rate = LeastRate()
    received = 0
    has_more = True
    while has_more:
        began = clock()
        message = await upload.receive(request)
        seconds = clock() - began
        if message["type"] == "http.disconnect":
            raise RequestError("the client left", status=499, code="client_closed_request")
        data: bytes = message.get("body", b"")
        received += len(data)
        if received > max_bytes:
            raise _too_large(max_bytes)
        use(len(data))
        has_more = message.get("more_body", False)
        if has_more:
            rate.add(seconds, len(data))
        yield data


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Return the body of *request*; raises as `receive_body`."""
    return b"".join([data async for data in receive_body(request, max_bytes)])


def _too_large(max_bytes: int) -> RequestError:
    return RequestError(
        f"the upload is larger than {max_bytes / 1e6:g} MB", status=413, code="file_too_large"
    )
