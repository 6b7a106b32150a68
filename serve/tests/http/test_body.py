"""Bodies that come too slowly, by a clock of the test."""

from __future__ import annotations

import asyncio

import attrs
from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_serve.errors import RequestError
from wlk_serve.http.body import receive_body


@attrs.define(eq=False)
class Request:
    """A request whose parts come after some seconds each: pairs of seconds and bytes."""

    parts: list
    headers: dict = attrs.field(factory=dict)
    now: float = 1000.0

    async def receive(self):
        """Return the next part, when its time is over."""
        seconds, data = self.parts.pop(0)
        self.now += seconds
        return {"type": "http.request", "body": data, "more_body": bool(self.parts)}


def received(request, *, use_seconds=0.0):
    """Return the bytes of a request; the server needs *use_seconds* for each part."""

    async def run():
        body = b""
        async for data in receive_body(request, 10**9, clock=lambda: request.now):
            body += data
            request.now += use_seconds
        return body

    return asyncio.run(run())


def test_a_trickle_is_refused_after_a_minute():
    """A byte in 29 s would keep a place of the server for years."""
    request = Request([(29.0, b"x")] * 1000)

    with pytest.raises(RequestError, match="3 bytes of the body came in 87 s") as refused:
        received(request)
    assert (408, "timeout") == (refused.value.status, refused.value.code)
    assert 997 == len(request.parts)


def test_a_trickle_after_a_fast_beginning_is_refused():
    """What came in another minute does not count."""
    with pytest.raises(RequestError, match="less than 10 a second"):
        received(Request([(1.0, bytes(10_000_000)), *[(29.0, b"x")] * 1000]))


def test_a_slow_network_is_served():
    """The 16 kbit/s of a phone at the edge of its cell, with half a minute without a byte."""
    second = bytes(2000)
    parts = [(1.0, second)] * 40 + [(29.0, second)] + [(1.0, second)] * 40

    assert 81 * 2000 == len(received(Request(parts)))


def test_only_the_time_counts_in_which_the_server_waits_for_its_client():
    """A server that is busy is no fault of the client."""
    assert b"x" * 10 == received(Request([(0.0, b"x")] * 10), use_seconds=100.0)


def test_a_short_body_that_is_complete_is_not_refused():
    """Nothing more is waited for."""
    assert b"{}" == received(Request([(29.0, b"{"), (29.0, b""), (29.0, b"}")]))


@given(st.lists(st.tuples(st.floats(0.001, 30.0), st.floats(1.0, 100.0)), min_size=1, max_size=50))
def test_a_client_at_the_least_rate_is_never_refused(parts):
    """However its bytes are divided."""
    request = Request([(seconds, bytes(int(10 * seconds * f) + 1)) for seconds, f in parts])

    assert sum(len(data) for _, data in request.parts) == len(received(request))
