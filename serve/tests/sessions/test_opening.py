"""Sessions whose streams are opened while the event loop keeps running, and their shutdown."""

from __future__ import annotations

import asyncio
import json
from unittest.mock import AsyncMock

import attrs
import pytest

from wlk_core.errors import OptionError

from .conftest import APPEND, turns

END = '{"type": "wlk.end"}'
COMMIT = '{"type": "input_audio_buffer.commit"}'
MANUAL = '{"type": "session.update", "session": {"audio": {"input": {"turn_detection": null}}}}'


async def receive(session, queue, *messages):
    """Pass *messages* to a session, one after another."""
    for message in messages:
        await session.receive(queue, message)


async def opening(open_session, opener, *messages, **options):
    """Begin a session that receives *messages*; return while its stream is being opened."""
    session = open_session(open_stream=opener.open_stream, **options)
    queue = session.begin()
    receiving = asyncio.create_task(receive(session, queue, *messages))
    await turns()
    return session, queue, receiving


async def errors_of(queue):
    """Return the errors among the messages of a closed queue."""
    messages = []
    while (text := await queue.get()) is not None:
        messages.append(json.loads(text))
    return [message["error"] for message in messages if message["type"] == "error"]


def test_a_message_that_opens_a_stream_is_applied_once(open_session, opener, streams):
    """Later messages wait until it is applied."""

    async def run():
        messages = (MANUAL, APPEND, APPEND, COMMIT)
        session, _, receiving = await opening(open_session, opener, *messages)
        waits = session.audio.samples == 0 and not receiving.done()
        opener.begun[0].set_result(None)
        await receiving
        samples = session.audio.samples
        session.close()
        return waits, samples

    assert asyncio.run(run()) == (True, 48_000)
    (stream,) = streams
    assert stream.calls == [("receive", 24_000), ("receive", 24_000), ("commit",), ("close",)]


def test_a_large_message_waits_for_its_turn_and_a_small_one_does_not(
    open_session, streams, monkeypatch
):
    """Several large messages at once would block everyone else for seconds."""
    monkeypatch.setattr("wlk_serve.sessions.session.LARGE_MESSAGE", len(APPEND) - 1)

    async def run():
        session = open_session()
        queue = session.begin()
        async with session._service.blocking_work.turn():  # by another session
            receiving = asyncio.create_task(receive(session, queue, MANUAL, APPEND))
            await turns()
            waits = session._protocol._takes_binary and session.audio.samples == 0
        await receiving
        samples = session.audio.samples
        session.close()
        return waits, samples

    assert asyncio.run(run()) == (True, 24_000)


def test_settings_that_change_while_a_stream_opens_are_those_of_the_audio(
    open_session, opener, streams
):
    """The end of a turn can change settings; a stream with old settings gets no audio."""

    async def run():
        session, _, receiving = await opening(open_session, opener, MANUAL, APPEND)
        session.audio.change(attrs.evolve(session.audio.options, prompt="digits"))
        opener.begun[0].set_result(None)
        await turns()
        opener.begun[1].set_result(None)
        await receiving
        session.close()

    asyncio.run(run())
    old, new = streams
    assert old.calls == [("close",)]
    assert new.calls == [("receive", 24_000), ("close",)]


def test_a_session_that_ends_while_it_waits_opens_no_stream(open_session, opener, monkeypatch):
    """Settings that change with every message would keep the event loop waiting for threads."""
    monkeypatch.setattr("wlk_serve.sessions.session._OPENING_SECONDS", 3600)

    async def run():
        session, queue, receiving = await opening(open_session, opener, APPEND)
        opener.begun[0].set_result(None)
        await receiving
        session.audio.change(attrs.evolve(session.audio.options, prompt="digits"))
        end = AsyncMock(side_effect=lambda seconds: seconds and session.close())
        monkeypatch.setattr(asyncio, "sleep", end)
        await asyncio.wait_for(receive(session, queue, APPEND), timeout=10)
        return len(opener.begun)

    assert asyncio.run(run()) == 1


def test_a_stream_that_the_backend_refuses_is_an_error_of_its_message(open_session, opener):
    """The session continues, and the next audio tries again."""

    async def run():
        session, queue, receiving = await opening(open_session, opener, APPEND, APPEND)
        opener.begun[0].set_exception(OptionError("the model takes no such prompt"))
        await turns()
        opener.begun[1].set_result(None)
        await receiving
        samples = session.audio.samples
        session.end()
        session.fail()
        errors = await errors_of(queue)
        session.close()
        return samples, errors

    samples, (error,) = asyncio.run(run())

    assert samples == 24_000
    assert error["event_id"] == "audio-1"
    assert "no such prompt" in error["message"]


def test_a_session_that_was_to_end_ends_although_its_stream_is_refused(open_session, opener):
    """Otherwise its client would wait for the end of the socket until the idle limit."""

    async def run():
        session, _, receiving = await opening(open_session, opener, APPEND)
        session.audio.end()
        opener.begun[0].set_exception(OptionError("the model takes no such prompt"))
        await receiving
        return session.audio.is_over

    assert asyncio.run(run())


@pytest.mark.parametrize(
    "interrupt",
    [
        lambda session, _queue: session.close(),
        lambda session, _queue: session.end(),
        lambda session, _queue: session.resume(0),
        lambda session, queue: session.detach(queue, 1000),
    ],
    ids=["dropped", "shut down", "taken over", "left"],
)
def test_a_stream_that_is_opened_too_late_is_closed(open_session, opener, streams, interrupt):
    """The message is not applied, because a client that resumes sends it again."""

    async def run():
        session, queue, receiving = await opening(open_session, opener, APPEND, is_resumable=True)
        interrupt(session, queue)
        opener.begun[0].set_result(None)
        await receiving
        samples = session.audio.samples
        session.close()
        return samples

    assert asyncio.run(run()) == 0
    (stream,) = streams
    assert stream.calls == [("close",)]


@pytest.mark.parametrize(
    ("message", "is_resumable", "code", "cuts"),
    [(MANUAL, True, 1012, 1), (MANUAL, False, 1012, 0), (END, True, 1000, 0)],
)
def test_only_a_session_that_goes_on_is_cut_and_closed_for_a_restart(
    open_session, message, is_resumable, code, cuts
):
    """A client that keeps its audio can have a cut word recognised again; others get no wlk.cut."""

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

    assert asyncio.run(run()) == (cuts, code)
