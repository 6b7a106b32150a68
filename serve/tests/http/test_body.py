"""Bodies of requests, as their parts come."""

from __future__ import annotations

import asyncio

import attrs
import pytest

from wlk_serve.errors import RequestError
from wlk_serve.http.body import body_parts


@attrs.define(eq=False)
class Request:
    """A request with some parts, after which nothing comes."""

    parts: list
    headers: dict = attrs.field(factory=dict)
    is_complete: bool = True

    async def receive(self):
        """Return the next part, or wait for ever."""
        if not self.parts:
            await asyncio.Event().wait()
        more = len(self.parts) > 1 or not self.is_complete
        return {"type": "http.request", "body": self.parts.pop(0), "more_body": more}


def read_body(request, max_bytes):
    """Return all parts of a body together."""

    async def read():
        return b"".join([part async for part in body_parts(request, max_bytes)])

    return asyncio.run(read())


@pytest.mark.parametrize(
    "request_", [Request([b"12", b"3"]), Request([], {"content-length": "3"})], ids=["sent", "told"]
)
def test_a_body_that_is_too_large_is_refused(request_):
    """By its header, before any byte is read, or when it has come."""
    with pytest.raises(RequestError, match="larger than") as refused:
        read_body(request_, 2)

    assert (413, "file_too_large") == (refused.value.status, refused.value.code)


def test_a_body_that_stops_coming_is_refused(monkeypatch):
    """Its place of the server is free again."""
    monkeypatch.setattr("wlk_serve.http.body._WAIT_SECONDS", 0.01)

    with pytest.raises(RequestError, match="no byte of the body came") as refused:
        read_body(Request([b"{"], is_complete=False), 100)
    assert (408, "timeout") == (refused.value.status, refused.value.code)
