"""Sessions that the server ends."""

from __future__ import annotations

import asyncio
import json

import pytest

END = '{"type": "wlk.end"}'
MANUAL = '{"type": "session.update", "session": {"audio": {"input": {"turn_detection": null}}}}'


@pytest.mark.parametrize(
    ("message", "is_resumable", "code", "cuts"),
    [(MANUAL, True, 1012, 1), (MANUAL, False, 1012, 0), (END, True, 1000, 0)],
)
def test_only_a_session_that_goes_on_is_cut_and_closed_for_a_restart(
    open_session, message, is_resumable, code, cuts
):
    """A client that keeps its audio may have the cut word recognised again; others know no cut."""

    async def run():
        session = open_session(is_resumable=is_resumable)
        queue = session.begin()
        await session.receive(queue, message)
        session.end()
        types = []
        while (text := await queue.get()) is not None:
            types.append(json.loads(text)["type"])
        session.close()
        return types.count("wlk.cut"), session.close_code

    assert (cuts, code) == asyncio.run(run())
