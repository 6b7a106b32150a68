"""Cancelled calls of asyncio: whatever the moment, no committed word is lost or repeated."""

from __future__ import annotations

import asyncio
from contextlib import suppress
import threading

import numpy as np
import pytest
from session_events import BackendOf, tokens_of

from wlk_core import StreamClosed
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


def test_a_second_cancellation_waits_for_no_step_and_loses_no_word(open_stream, speech):
    """The words of the step come when it ends; the stream is closed then."""
    is_held, is_free = threading.Event(), threading.Event()
    processor = open_stream()
    committed = recording(processor)
    step, received = processor.process_iter, []

    def held():
        emission = step()
        if committed:
            is_held.set()
            assert is_free.wait(120)
        return emission

    processor.process_iter = held

    async def run():
        events = astream(BackendOf(processor), live(speech), vad=False)

        async def consume():
            async for event in events:
                received.append(event)  # noqa: PERF401 -- kept although it is cancelled

        task = asyncio.create_task(consume())
        assert await asyncio.to_thread(is_held.wait, 120)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0.01)
        with pytest.raises(asyncio.CancelledError):
            await task
        asyncio.get_running_loop().call_later(0.1, is_free.set)
        received.extend([event async for event in events])

    asyncio.run(run())

    assert texts_of(committed) == texts_of(tokens_of(received))
    with pytest.raises(StreamClosed):
        step()
