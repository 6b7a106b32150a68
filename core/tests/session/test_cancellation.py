"""Cancelled calls of asyncio: whatever the moment, no committed word is lost or repeated."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import numpy as np
import pytest
from session_events import BackendOf, tokens_of

from wlk_core.session import astream


def texts_of(tokens):
    """Return the texts of tokens without their spacing."""
    return [token.text.strip() for token in tokens]


def recording(processor):
    """Let a processor note the tokens that it commits; return the list of them."""
    committed = []

    def recorded(call):
        def record():
            emission = call()
            committed.extend(emission.committed)
            return emission

        return record

    processor.process_iter = recorded(processor.process_iter)
    processor.finish = recorded(processor.finish)
    return committed


async def live(audio):
    """Yield audio in ten chunks."""
    for chunk in np.array_split(audio, 10):
        yield chunk


@pytest.mark.parametrize("rounds", [0, 1, 2, 3, 5, 8, 13, 34, 144, 600])
def test_events_cancelled_at_any_moment_lose_no_word(rounds, open_stream, speech, words):
    """What the running step committed comes with the next anext, and then the events end."""
    processor = open_stream()
    committed = recording(processor)

    async def run():
        events = astream(BackendOf(processor), live(speech), vad=False)
        received = []

        async def consume():
            async for event in events:
                received.append(event)

        task = asyncio.create_task(consume())
        for _ in range(rounds):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        received += [event async for event in events]
        return received

    tokens = tokens_of(asyncio.run(run()))

    assert texts_of(committed) == texts_of(tokens)
    assert texts_of(words)[: len(tokens)] == texts_of(tokens)
