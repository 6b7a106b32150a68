"""A connection whose reader fails."""

from __future__ import annotations

import asyncio

import attrs
import pytest

from wlk_realtime.engine.messages import ServerMessageError
from wlk_realtime.realtime.connection import Connection

TIMEOUT = 60.0  # seconds after which a call that waits has failed


@attrs.define(eq=False)
class QueueSocket:
    """A socket that receives what a test puts into its queue."""

    messages: asyncio.Queue = attrs.field(factory=asyncio.Queue)

    async def recv(self):
        """Return the next message."""
        return await self.messages.get()


class DefectiveConversation:
    """A conversation that fails with an error that no connection expects."""

    is_ready = True

    def receive(self, text):
        """Fail."""
        raise OverflowError(f"{text} is\ntoo large")


def test_an_unexpected_error_of_the_reader_is_raised_at_once():
    """A caller that waits gets it with its cause, and does not wait until its time is over."""

    async def answer():
        socket = QueueSocket()
        connection = Connection(socket, DefectiveConversation())
        waiting = asyncio.create_task(connection.wait_until(lambda: False))
        socket.messages.put_nowait("7")
        async with asyncio.timeout(TIMEOUT):
            with pytest.raises(ServerMessageError, match="OverflowError: 7 is") as raised:
                await waiting
            with pytest.raises(ServerMessageError):
                await connection.send(["more"])
        return raised.value

    assert isinstance(asyncio.run(answer()).__cause__, OverflowError)
