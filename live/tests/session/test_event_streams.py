"""`stream` and `astream`: events from chunks, with and without asyncio."""

from __future__ import annotations

import asyncio
import gc
import math
import threading

import numpy as np
import pytest
from session_events import BackendOf, tokens_of

from wlk_conformance.testing import silence
from wlk_core import AudioFormatError, BackendError, OptionError, StreamClosed
from wlk_live.session import End, Session, astream, stream, transcribe, transcribe_many


def in_chunks(audio, samples=16_000):
    """Cut *audio* into chunks."""
    return [audio[start : start + samples] for start in range(0, len(audio), samples)]


async def live(chunks):
    """Yield chunks as an asynchronous source does."""
    for chunk in chunks:
        await asyncio.sleep(0)
        yield chunk


async def collected(events):
    """Return the events of an asynchronous iterator."""
    return [event async for event in events]


def without_wall_clock(events):
    """Return comparable events: the statistics of an End depend on the wall clock."""
    return [(event.audio_time if isinstance(event, End) else event) for event in events]


def run_stream(processor, chunks, **options):
    """Return the events of stream."""
    return list(stream(BackendOf(processor), chunks, **options))


def run_astream(processor, chunks, **options):
    """Return the events of astream over an asynchronous source."""
    source = live(chunks) if isinstance(chunks, list) else chunks
    return asyncio.run(collected(astream(BackendOf(processor), source, **options)))


class ConnectionBrokenError(Exception):
    """An error of a library for sockets, which is no OSError."""


streaming = pytest.mark.parametrize("run", [run_stream, run_astream], ids=["stream", "astream"])


@streaming
@pytest.mark.parametrize("samples", [320, 5_000, 16_000, 400_000])
def test_the_events_are_those_of_the_session_for_any_chunks(run, samples, open_coded, speech):
    """Every event comes once and in order, however the source cuts the audio."""
    session = Session(open_coded())
    expected = [event for chunk in in_chunks(speech) for event in session.feed(chunk)]
    expected += session.finish()
    events = run(open_coded(), in_chunks(speech, samples), vad=False)

    assert without_wall_clock(events) == without_wall_clock(expected)


@streaming
def test_a_stream_of_nothing_ends(run, open_coded):
    """Without chunks, or with empty chunks only, there is an End and no text."""
    for chunks in ([], [np.zeros(0, dtype=np.float32)] * 3):
        events = run(open_coded(), chunks, vad=False)

        assert [type(event) for event in events] == [End]
        assert events[0].audio_time == 0.0


@streaming
def test_a_source_may_reuse_the_memory_of_its_chunks(run, open_coded, speech, words):
    """Chunks are copied when they come, because capture libraries reuse their buffers."""
    memory = np.empty(1_000, dtype=np.float32)

    def reusing():
        for chunk in in_chunks(speech, 1_000):
            memory[: len(chunk)] = chunk
            yield memory[: len(chunk)]

    source = reusing() if run is not run_astream else live(reusing())
    events = run(open_coded(), source, vad=False)

    assert len(tokens_of(events)) == len(words)


@pytest.mark.parametrize("call", [stream, astream], ids=["stream", "astream"])
@pytest.mark.parametrize(
    ("options", "error"),
    [({}, AudioFormatError), *(({"chunk_seconds": x}, OptionError) for x in (0, -1.0, math.inf))],
    ids=str,
)
def test_a_wrong_argument_is_refused_before_a_stream_is_opened(call, options, error, speech):
    """A single array, which would be read sample by sample, and invalid chunk lengths raise."""
    chunks = speech if not options else [speech] if call is stream else live([speech])
    error = TypeError if call is astream and not options else error
    with pytest.raises(error, match="iterable" if not options else "chunk_seconds"):
        call(BackendOf(pytest.fail), chunks, vad=False, **options)


@pytest.mark.parametrize("chunks", ["demo.wav", b"RIFF", np.zeros(3, np.float32)], ids=type)
def test_what_is_a_recording_is_refused_with_the_call_for_it(chunks):
    """Character by character, a path would be refused as a chunk."""
    with pytest.raises(AudioFormatError, match=r"iterable of chunks, got .*transcribe"):
        stream(BackendOf(pytest.fail), chunks)


@pytest.mark.parametrize("call", [stream, astream], ids=["stream", "astream"])
@pytest.mark.parametrize(
    "failure",
    [AudioFormatError("damaged"), OSError("unplugged"), ConnectionBrokenError("no close")],
    ids=repr,
)
def test_a_source_that_fails_gives_the_text_before_the_failure(
    call, failure, open_coded, speech, words
):
    """All audio before a failure, cut anywhere, is transcribed before the failure is raised."""

    def failing():
        yield from np.array_split(speech, 7)
        raise failure

    events = []

    async def consume():
        async for event in astream(BackendOf(open_coded()), live(failing()), vad=False):
            events.append(event)  # noqa: PERF401 -- kept although the iteration fails

    with pytest.raises(type(failure)):
        if call is astream:
            asyncio.run(consume())
        else:
            events.extend(stream(BackendOf(open_coded()), failing(), vad=False))

    assert len(tokens_of(events)) == len(words)


@streaming
def test_a_failure_that_lasts_is_raised(run, open_coded, speech):
    """A broken stream is an error, never an empty result."""
    processor = open_coded(fail_at=range(3, 100))

    with pytest.raises(BackendError):
        run(processor, in_chunks(speech), vad=False)
    with pytest.raises(StreamClosed):
        processor.process_iter()


@streaming
def test_a_call_that_failed_is_repeated_after_a_pause(run, open_coded, speech, monkeypatch):
    """An engine without memory may have some a moment later; a sound call waits for nothing."""
    pauses = []
    monkeypatch.setattr("wlk_live.session.driver.time.sleep", pauses.append)
    expected = tokens_of(run(open_coded(), in_chunks(speech), vad=False))
    before = [*pauses]
    events = run(open_coded(fail_at={2, 3, 6}), in_chunks(speech), vad=False)

    assert before == []
    assert pauses == [0.1, 0.2, 0.1]
    assert tokens_of(events) == expected


def test_leaving_the_loop_closes_the_processor(open_coded, speech):
    """Closing the generator early closes its stream."""
    processor = open_coded()
    events = stream(BackendOf(processor), in_chunks(speech), vad=False)
    next(events)
    events.close()

    with pytest.raises(StreamClosed):
        processor.process_iter()


class Held:
    """A function whose call number *at* waits to be released."""

    def __init__(self, at=1):
        self.at = at
        self.calls = 0
        self.is_waiting, self.released = threading.Event(), threading.Event()

    def __call__(self):
        """Count the call, and wait if it is the one to hold."""
        self.calls += 1
        if self.calls == self.at:
            self.is_waiting.set()
            assert self.released.wait(120)


@pytest.mark.parametrize("stage", ["opening", "engine"])
def test_the_event_loop_runs_while_a_stream_opens_and_works(stage, open_coded, speech):
    """Other tasks make progress, because opening and decoding run in a thread."""
    held = Held()

    def opening():
        if stage == "opening":
            held()
        return open_coded(before_call=held if stage == "engine" else None)

    async def other():
        assert await asyncio.to_thread(held.is_waiting.wait, 120)
        held.released.set()

    async def run():
        events = collected(astream(BackendOf(opening), live([speech]), vad=False))
        return (await asyncio.gather(events, other()))[0]

    events = asyncio.run(run())

    assert isinstance(events[-1], End)
    assert tokens_of(events) == tokens_of(stream(BackendOf(open_coded()), [speech], vad=False))


@pytest.mark.parametrize("stage", ["opening", "engine"])
def test_a_cancellation_waits_for_the_running_thread_and_closes_the_stream(
    stage, open_coded, speech
):
    """Afterwards the backend is no longer in use, however often the consumer was cancelled."""
    held = Held(at=3 if stage == "engine" else 1)
    processor = open_coded(before_call=held if stage == "engine" else None)
    received = []

    def opening():
        if stage == "opening":
            held()
        return processor

    async def consume():
        async for event in astream(BackendOf(opening), live(in_chunks(speech)), vad=False):
            received.append(event)  # noqa: PERF401 -- kept although the iteration is cancelled

    async def run():
        task = asyncio.create_task(consume())
        assert await asyncio.to_thread(held.is_waiting.wait, 120)
        for _ in range(10):  # without waiting, the task would end after two rounds of the loop
            task.cancel()
            await asyncio.sleep(0)
        is_waiting = not task.done()
        held.released.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return is_waiting

    assert asyncio.run(run())
    assert held.at == held.calls
    assert bool(received) == (stage == "engine")
    with pytest.raises(StreamClosed):
        processor.process_iter()


def test_a_consumer_that_waits_for_audio_can_be_cancelled(open_coded):
    """A source that never yields again does not block cancellation."""
    processor = open_coded()

    async def silent_source():
        await asyncio.sleep(3600)
        yield silence(1.0)

    async def run():
        async with asyncio.timeout(0.05):
            await collected(astream(BackendOf(processor), silent_source(), vad=False))

    with pytest.raises(TimeoutError):
        asyncio.run(run())
    with pytest.raises(StreamClosed):
        processor.process_iter()


def test_many_streams_run_in_one_event_loop(open_coded, speech, words):
    """Streams that wait for audio hold no thread, so there can be more streams than threads."""

    async def run():
        chunks = in_chunks(speech)
        streams = [
            collected(astream(BackendOf(open_coded()), live(chunks), vad=False)) for _ in range(40)
        ]
        return await asyncio.gather(*streams)

    results = asyncio.run(run())

    assert {len(tokens_of(events)) for events in results} == {len(words)}


def test_an_iteration_that_is_left_closes_the_stream_without_the_garbage_collector(
    open_coded, speech
):
    """Otherwise the processor would keep its memory or connection until a later collection."""
    processor = open_coded()

    async def leave():
        async for _ in astream(BackendOf(processor), live(in_chunks(speech)), vad=False):
            break
        with pytest.raises(StreamClosed):
            for _ in range(1000):  # until the thread of the last step is done with it
                processor.process_iter()
                await asyncio.sleep(0.01)

    gc.disable()
    try:
        asyncio.run(leave())
    finally:
        gc.enable()


@pytest.mark.parametrize("function", [transcribe, transcribe_many, stream, astream])
def test_the_name_of_a_backend_is_answered_with_how_to_load_it(function, speech):
    """A name in place of a loaded backend is an OptionError that contains the call to make."""
    audio = speech if function is transcribe else [speech]
    expected = "got the name 'scripted'; load it with: wlk_core.load_backend"

    with pytest.raises(OptionError, match=expected):
        list(function("scripted", audio))


@pytest.mark.parametrize("options", [{"diarizer": "sortformer"}, {"text_filters": ["format"]}])
@pytest.mark.parametrize("function", [transcribe, stream])
def test_the_name_of_an_annotator_is_answered_with_how_to_load_it(
    function, options, open_coded, speech
):
    """So is a name in place of a loaded diarizer or text filter."""
    audio = speech if function is transcribe else [speech]

    with pytest.raises(OptionError, match="load_annotator"):
        list(function(BackendOf(open_coded()), audio, **options))
