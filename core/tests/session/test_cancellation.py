"""Cancelled calls of asyncio: whatever the moment, no committed word is lost or repeated."""

from __future__ import annotations

import asyncio
from contextlib import suppress
import logging
import threading

import numpy as np
import pytest

from wlk_conformance.testing.coded_engine import BackendOf
from wlk_core.errors import ConcurrentCallError, StreamClosed
from wlk_core.session import AsyncProcessor, Commit, astream
from wlk_core.tokens import ChangeSpeaker

SECOND = 16_000
CALLS = ["process_iter", "start_silence", "new_speaker", "finish"]


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


def call_of(stream, name):
    """Return a function that makes the call."""
    if name == "new_speaker":
        return lambda: stream.new_speaker(ChangeSpeaker("ann", 0.0))
    return getattr(stream, name)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("rounds", range(8))
def test_a_call_cancelled_at_any_moment_loses_no_word(name, rounds, open_stream, speech, words):
    """What a cancelled call committed comes with the next one, in order and once."""

    async def run():
        tokens = []
        cancel = CancelAt(rounds)
        async with AsyncProcessor(open_stream()) as stream:
            for start in range(0, len(speech), 4 * SECOND):
                stream.insert_audio_chunk(speech[start : start + 4 * SECOND])
                for _ in range(3):
                    emission = await cancel(call_of(stream, "process_iter"))
                    tokens += emission.committed if emission else ()
            emission = await cancel(call_of(stream, name))
            tokens += emission.committed if emission else ()
            if name == "finish":
                emission = await stream.finish()
            else:
                emission = await stream.start_silence()
            tokens += emission.committed
        return tokens, cancel.cancelled

    tokens, cancelled = asyncio.run(run())

    assert texts_of(words) == texts_of(tokens)
    assert cancelled > 0 or rounds > 2


def test_a_cancellation_does_not_wait_for_the_engine(open_stream, speech, words):
    """The call goes on in its thread; the next one waits for its end and returns its words."""
    in_call, may_return = threading.Event(), threading.Event()

    def before_call():
        in_call.set()
        assert may_return.wait(120)

    async def run():
        stream = AsyncProcessor(open_stream(before_call=before_call))
        stream.insert_audio_chunk(speech)
        finishing = asyncio.create_task(stream.finish())
        assert await asyncio.to_thread(in_call.wait, 10)
        finishing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await finishing
        again = asyncio.create_task(stream.finish())
        await asyncio.sleep(0)
        is_waiting = not again.done()
        may_return.set()
        tokens = (await again).committed
        assert () == (await stream.finish()).committed
        await stream.close()
        return is_waiting, tokens

    is_waiting, tokens = asyncio.run(run())

    assert is_waiting
    assert texts_of(words) == texts_of(tokens)


def test_a_cancelled_silence_moves_the_clock_once(open_stream):
    """A call that was begun is made, although its task is cancelled."""

    async def run():
        async with AsyncProcessor(open_stream()) as stream:
            await CancelAt(1)(lambda: stream.end_silence(2.0))
            return (await stream.finish()).processed_up_to

    assert 2.0 == asyncio.run(run())


def test_the_error_of_a_cancelled_call_is_logged(open_stream, speech, words, caplog):
    """It changed nothing, and the next call repeats the work."""
    in_call, may_return = threading.Event(), threading.Event()

    def before_call():
        in_call.set()
        assert may_return.wait(120)

    async def run():
        async with AsyncProcessor(open_stream(fail_at={1}, before_call=before_call)) as stream:
            stream.insert_audio_chunk(speech)
            finishing = asyncio.create_task(stream.finish())
            assert await asyncio.to_thread(in_call.wait, 10)
            finishing.cancel()
            with suppress(asyncio.CancelledError):
                await finishing
            may_return.set()
            return (await stream.finish()).committed

    with caplog.at_level(logging.WARNING):
        tokens = asyncio.run(run())

    assert texts_of(words) == texts_of(tokens)
    assert "a cancelled call failed: the engine failed" in caplog.text


def test_calls_that_overlap_are_refused(open_stream, speech):
    """A second task cannot call while the first one waits."""

    async def run():
        async with AsyncProcessor(open_stream()) as stream:
            stream.insert_audio_chunk(speech)
            first = asyncio.create_task(stream.finish())
            await asyncio.sleep(0)
            with pytest.raises(ConcurrentCallError):
                await stream.process_iter()
            return (await first).committed

    assert asyncio.run(run())


def test_a_reset_drops_what_a_cancelled_call_committed(open_stream, speech):
    """The stream is as a new one."""

    async def run():
        async with AsyncProcessor(open_stream()) as stream:
            stream.insert_audio_chunk(speech)
            await CancelAt(1)(stream.start_silence)
            await stream.reset()
            assert not stream.has_backlog
            assert 0.0 == stream.stats.audio_seconds
            assert () == stream.get_buffer().tokens
            return (await stream.finish()).committed

    assert () == asyncio.run(run())


def test_a_closed_processor_refuses_calls(open_stream):
    """Closing waits for the running call; errors of a call reach the task that awaits it."""

    async def run():
        stream = AsyncProcessor(open_stream())
        await stream.close()
        with pytest.raises(StreamClosed):
            await stream.process_iter()

    asyncio.run(run())


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

    async def run():
        events = astream(BackendOf(processor), list(np.array_split(speech, 10)), vad=False)
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
