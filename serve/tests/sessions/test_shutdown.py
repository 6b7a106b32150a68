"""Sessions that the server ends."""

from __future__ import annotations

import asyncio
import json

import pytest

END = '{"type": "wlk.end"}'
MANUAL = '{"type": "session.update", "session": {"audio": {"input": {"turn_detection": null}}}}'


@pytest.fixture
def shut_down(open_session):
    """Return a function that lets a session receive a message and a shutdown; see `run`."""

    async def run(message, is_resumable):
        """Return the types of the last messages and the close code."""
        session = open_session(is_resumable=is_resumable)
        queue = session.begin()
        await session.receive(queue, message)
        session.end()
        types = []
        while (text := await queue.get()) is not None:
            types.append(json.loads(text)["type"])
        code = session.close_code
        session.close()
        return types, code

    return lambda message, *, is_resumable=True: asyncio.run(run(message, is_resumable))


@pytest.mark.parametrize(("message", "code"), [(END, 1000), (MANUAL, 1012)])
def test_only_a_session_that_goes_on_is_closed_for_a_restart(shut_down, message, code):
    """A client that ended its session need not come back."""
    assert code == shut_down(message)[1]


@pytest.mark.parametrize(
    ("message", "is_resumable", "cuts"), [(MANUAL, True, 1), (MANUAL, False, 0), (END, True, 0)]
)
def test_only_a_client_that_keeps_its_audio_is_sent_where_the_server_cut_it(
    shut_down, message, is_resumable, cuts
):
    """It may have the cut word recognised again; other clients know no such event."""
    types, _ = shut_down(message, is_resumable=is_resumable)

    assert cuts == types.count("wlk.cut")
