"""Cancelled calls of asyncio: whatever the moment, no committed word is lost or repeated."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from wlk_conformance.testing.coded_engine import BackendOf
from wlk_core.session import Commit, astream


def texts_of(tokens):
    """Return the texts of tokens without their spacing."""
    return [token.text.strip() for token in tokens]


class CancelAt:
    """Make a call in a task of its own and cancel it after so many rounds of the event loop."""

    def __init__(self, rounds):
        self.rounds = rounds
        self.cancelled = 0

    async def __call__(self, call):
        """Return what the call returned, or None where it was cancelled."""
        made = asyncio.ensure_future(call())
        for _ in range(self.rounds):
            if made.done():
                break
            await asyncio.sleep(0)
        made.cancel()
        try:
            return await made
        except asyncio.CancelledError:
            self.cancelled += 1
            return None


@pytest.mark.parametrize("rounds", [0, 1, 2, 3, 5, 8, 13, 34, 144, 600])
def test_events_cancelled_at_any_moment_lose_no_word(rounds, open_stream, speech, words):
    """What the running step committed comes with the next anext, and then the events end."""
    processor = open_stream()
    committed = []

    def recorded(call):
        def record():
            emission = call()
            committed.extend(emission.committed)
            return emission

        return record

    processor.process_iter = recorded(processor.process_iter)
    processor.finish = recorded(processor.finish)

    async def live():
        for chunk in np.array_split(speech, 10):
            yield chunk

    async def run():
        events = astream(BackendOf(processor), live(), vad=False)
        received = []

        async def consume():
            async for event in events:
                received.append(event)

        await CancelAt(rounds)(consume)
        received += [event async for event in events]
        return received

    received = asyncio.run(run())
    tokens = [token for event in received if isinstance(event, Commit) for token in event.tokens]

    assert texts_of(committed) == texts_of(tokens)
    assert texts_of(words)[: len(tokens)] == texts_of(tokens)
