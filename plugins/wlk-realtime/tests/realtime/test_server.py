"""The clients of the streams of a backend, which share a thread."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
import threading

import attrs

from wlk_realtime.realtime.address import Address, Endpoint
from wlk_realtime.realtime.server import Server


@attrs.define(eq=False)
class SlowClient:
    """A connected client whose close lasts until it is released."""

    begun: threading.Event = attrs.field(factory=threading.Event)
    release: asyncio.Event = attrs.field(factory=asyncio.Event)
    is_open: bool = True

    async def close(self):
        """Wait for the release."""
        self.begun.set()
        await self.release.wait()


class QuickClient(SlowClient):
    """A connected client whose close ends at once."""

    async def close(self):
        """Return at once."""


def test_a_stream_that_closes_last_waits_for_those_that_still_close():
    """The thread of the sockets ends with the last close, not with the last call of it."""
    endpoint = Endpoint(address=Address.parse("ws://127.0.0.1:8000/v1/realtime"))
    server = Server(endpoint)
    slow, quick = SlowClient(), QuickClient()
    server._clients |= {slow, quick}
    with ThreadPoolExecutor(1) as threads:
        closing = threads.submit(server.close_client, slow)
        assert slow.begun.wait(60)
        server.close_client(quick)
        server.close_client(slow)  # again, while it closes: no effect
        is_running = not closing.done()

        async def let_go():
            slow.release.set()

        server._loop.run(let_go())
        closing.result(60)

    assert is_running
    assert server._loop._thread is None
    assert set() == server._clients
