"""Seconds of audio in one message, received in parts while the event loop keeps running."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

from wlk_core import AudioFormatError
from wlk_live.audio import PcmReader
from wlk_serve.blocking_work import BlockingWork
from wlk_serve.protocols import SessionAudio, StreamOptions

from .conftest import SECOND, turns

COMMIT = '{"type": "input_audio_buffer.commit"}'
PART = ("receive", 24_000)
LONG = json.dumps({"type": "input_audio_buffer.append", "audio": 3 * SECOND, "event_id": "long"})


@pytest.fixture
def run(open_session, open_stream):
    """Return a function that receives messages and calls `interrupt` after the first part."""

    async def open_idle(settings, _on_events, **_calls):
        stream = open_stream(settings)
        stream.backlog_seconds = 0.0
        return stream

    async def run(interrupt, *messages):
        session = open_session(open_stream=open_idle, is_resumable=True)
        queue = session.begin()
        for message in messages:
            async with session._service.blocking_work.turn():  # by another session
                receiving = asyncio.create_task(session.receive(queue, message))
                await turns()
                interrupt(session, queue)
            await receiving
        session.fail()
        return session.audio.samples

    return lambda *arguments: asyncio.run(run(*arguments))


def test_long_audio_is_received_in_parts_between_which_others_have_their_turns(run, streams):
    """A turn of the event loop takes one part of one session; a commit waits for all parts."""
    seen = []
    run(lambda *_: seen.append([*streams[0].calls]), LONG, COMMIT)

    assert seen == [[PART], [PART, PART, PART, ("commit",)]]


@pytest.mark.parametrize(
    "interrupt",
    [
        lambda session, _queue: session.resume(0),
        lambda session, queue: session.detach(queue, None),
    ],
    ids=["taken over", "lost"],
)
def test_the_samples_of_long_audio_that_is_interrupted_are_exact(run, streams, interrupt):
    """A client that resumes sends the remaining samples again."""
    samples = run(interrupt, LONG)

    assert (samples, [each for each in streams[0].calls if each == PART]) == (24_000, [PART])


@pytest.mark.parametrize("end", ["end", "_finish"], ids=["a shutdown", "a limit"])
def test_a_session_that_ends_takes_all_that_came(run, streams, end):
    """It takes the waiting parts, too, before its audio ends."""
    samples = run(lambda session, _queue: getattr(session, end)(), LONG)

    assert (samples, streams[0].calls) == (72_000, [PART, PART, PART, ("end_audio",)])


def test_a_commit_that_follows_in_the_same_message_ends_the_whole_of_it(run):
    """The protocol gets the segment, and `seconds` counts all audio that came."""
    seen = []
    run(lambda session, _: seen.append((session.audio.seconds, session.audio.commit())), LONG)

    assert [(seconds, segment.commits) for seconds, segment in seen] == [(3.0, 1)]


def test_long_audio_with_a_sample_that_is_no_number_is_refused_whole():
    """No part before the bad sample is taken either."""
    audio = SessionAudio(StreamOptions(encoding="f32le"))
    samples = np.zeros(48_000, dtype=np.float32)
    samples[-1] = np.nan
    with pytest.raises(AudioFormatError, match="at sample 47999 of 48000"):
        audio.append(samples.tobytes())

    assert not audio.is_waiting


def test_long_g711_is_read_in_parts_and_is_the_same_audio(monkeypatch):
    """No part is read before its turn: 11 MiB would become 44 MiB at once."""
    monkeypatch.undo()
    read, codes = PcmReader.read, bytes(range(256)) * 100
    sizes, received = [], []
    monkeypatch.setattr(
        PcmReader, "read", lambda reader, data: sizes.append(len(data)) or read(reader, data)
    )
    audio = SessionAudio(StreamOptions(encoding="alaw", rate=8_000))
    audio.append(codes)
    before = (audio.seconds, sizes[:])
    audio.open(SimpleNamespace(receive=received.append))
    while audio.is_waiting:
        audio.proceed()

    assert before == (3.2, [])
    assert sizes == [2_000] * 5 + [15_600]
    assert np.array_equal(np.concatenate(received), read(PcmReader("alaw"), codes))


def test_a_clear_drops_long_audio_that_came_before_it(run, streams):
    """Waiting parts are dropped, too, and do not arrive later."""
    run(lambda session, _: session.audio.clear(), LONG)

    assert streams[0].calls == [PART, PART, PART, ("close",)]


def test_a_refusal_costs_no_part_of_a_sample(open_stream):
    """Losing a byte would shift all bytes after it, and make them noise."""
    audio = SessionAudio(StreamOptions())
    audio.append(bytes(3))
    audio.drop_waiting()  # no stream could be opened
    audio.append(b"\1\2\3")
    audio.open(stream := open_stream(audio.options))
    audio.proceed()

    assert (audio.samples, stream.calls) == (2, [("receive", 2)])


def test_what_a_protocol_raises_is_its_answer(open_session):
    """An error in a client's message does not end the session."""

    async def run():
        session = open_session()
        session._protocol.receive = lambda data: session.audio.append(data) or []
        session.audio.change(StreamOptions(encoding="f32le"))
        queue = session.begin()
        await session.receive(queue, np.full(4, np.nan, dtype=np.float32).tobytes())
        return [json.loads(text) for _, text in queue._messages]

    assert [
        message["error"]["code"] for message in asyncio.run(run()) if message["type"] == "error"
    ] == ["invalid_audio"]


def test_live_audio_is_received_at_once_and_a_recording_in_parts(open_stream, monkeypatch):
    """Live clients do not wait behind clients that send recordings."""
    monkeypatch.undo()
    audio = SessionAudio(StreamOptions())
    audio.open(stream := open_stream(audio.options))
    audio.append(bytes(2 * 32_000))
    audio.append(bytes(3 * 32_000))
    while audio.is_waiting:
        audio.proceed()

    sizes = [size for _, size in stream.calls]
    assert sizes == [32_000, 4_000, 4_000, 4_000, 4_000, 32_000]


@pytest.mark.parametrize(("took", "seconds"), [(0.001, 0.0), (0.02, 0.04), (3600.0, 0.1)])
def test_after_a_piece_of_long_work_others_have_twice_its_time(took, seconds):
    """There is no pause after a short piece, and no pause exceeds a tenth of a second."""
    clock = Mock(return_value=0.0)
    turns = BlockingWork(clock)
    with turns.measured():
        clock.return_value = took

    assert max(0.0, turns.pause_left) == pytest.approx(seconds)
