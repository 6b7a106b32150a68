"""Audio of seconds in one message, which is received in parts while the event loop goes on."""

from __future__ import annotations

import asyncio
import json

import pytest

from .conftest import SECOND, turns

COMMIT = '{"type": "input_audio_buffer.commit"}'
PART = ("receive", 48_000)
LONG = json.dumps({"type": "input_audio_buffer.append", "audio": 3 * SECOND, "event_id": "long"})


@pytest.fixture
def run(open_session, open_stream, monkeypatch):
    """Return a function that receives messages, and calls another one after the first part."""
    monkeypatch.setattr("wlk_serve.realtime.protocol._LONG_APPEND", 0)

    async def open_idle(settings, _on_events):
        stream = open_stream(settings)
        stream.backlog_seconds = 0.0
        return stream

    async def run(interrupt, *messages):
        session = open_session(open_stream=open_idle, is_resumable=True)
        queue = session.begin()
        await session._service.large_messages.acquire()  # the turn of another session
        for message in messages:
            receiving = asyncio.create_task(session.receive(queue, message))
            await turns()
            interrupt(session, queue)
            if session._service.large_messages.locked():
                session._service.large_messages.release()
            await receiving
        session.fail()
        return session.audio.samples, [json.loads(text) for _, text in queue._messages]

    return lambda *arguments: asyncio.run(run(*arguments))


def test_long_audio_is_received_in_parts_between_which_others_have_their_turns(run, streams):
    """A turn of the event loop is short, and makes a part of one session; a commit comes after."""
    seen = []
    run(lambda *_: seen.append([*streams[0].calls]), LONG, COMMIT)

    assert [[PART], [PART, PART, PART, ("commit",)]] == seen


def test_long_audio_that_is_damaged_is_an_error_of_its_message(run):
    """None of it is received."""
    samples, messages = run(lambda *_: None, LONG.replace("AAAA", "!", 1))
    (error,) = (message["error"] for message in messages if message["type"] == "error")

    assert (0, "long", "audio") == (samples, error["event_id"], error["param"])


@pytest.mark.parametrize(
    "interrupt",
    [
        lambda session, _queue: session.end(),
        lambda session, _queue: session.resume(0),
        lambda session, queue: session.detach(queue, None),
    ],
    ids=["shut down", "taken over", "lost"],
)
def test_the_samples_of_long_audio_that_is_interrupted_are_exact(run, streams, interrupt):
    """A client that resumes sends the rest again."""
    samples, _ = run(interrupt, LONG)

    assert (24_000, [PART]) == (samples, [each for each in streams[0].calls if each == PART])
