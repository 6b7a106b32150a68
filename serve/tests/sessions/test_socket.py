"""A socket whose client reads too slowly, or leaves."""

from __future__ import annotations

import asyncio
import json
import math

import attrs
import pytest

from wlk_serve.sessions import messages
from wlk_serve.sessions.messages import SendQueue, encode
from wlk_serve.sessions.sockets import serve_session

from .conftest import APPEND, turns

WAIT = 60.0  # seconds after which a test that waits has failed


@attrs.define(eq=False)
class Socket:
    """
    A socket of a client that takes `sends` messages and sends `messages` of its own.

    It then raises `error`, or waits for ever.
    """

    sends: float
    messages: float
    text: str = "{}"  # an invalid message, which is answered with an error
    error: Exception | None = None
    close_code: int | None = None
    close_reason: str | None = None
    taken: list = attrs.field(factory=list)

    async def receive(self):
        """Return a message, or wait for ever."""
        await asyncio.sleep(0)
        if self.messages <= 0:
            await asyncio.Event().wait()
        self.messages -= 1
        return {"type": "websocket.receive", "text": self.text}

    async def send_text(self, text):
        """Take a message, or block."""
        if len(self.taken) >= self.sends:
            if self.error is not None:
                raise self.error
            await asyncio.Event().wait()
        self.taken.append(text)

    async def close(self, code, reason):
        """Store the code and the reason."""
        self.close_code, self.close_reason = code, reason


@pytest.fixture
def run(open_session, monkeypatch):
    """Return a function that serves a session over a socket until the session closes."""
    monkeypatch.setattr("wlk_serve.sessions.sockets._SEND_SECONDS", 0.2)
    ends = []

    async def serve(socket, **options):
        session = open_session(
            on_over=lambda: ends.append("over"),
            on_closed=lambda: ends.append("closed"),
            **options,
        )
        await serve_session(socket, session, session.begin())
        waits = ends == []
        session.close()
        return waits

    def run(socket, **options):
        waits = asyncio.run(serve(socket, **options))
        assert ends == ["over", "closed"]
        return waits

    return run


@pytest.mark.parametrize(
    ("messages", "seconds"), [(10, 0.2), (math.inf, 2.0)], ids=["takes nothing", "causes too much"]
)
def test_a_client_that_is_too_slow_is_closed(run, monkeypatch, caplog, messages, seconds):
    """Time and number of its waiting messages are bounded; the log has the close code."""
    monkeypatch.setattr("wlk_serve.sessions.sockets._SEND_SECONDS", seconds)
    socket = Socket(sends=1, messages=messages)

    with caplog.at_level("INFO", "wlk_serve"):
        assert not run(socket)
    assert (socket.close_code, len(socket.taken)) == (1013, 1)
    assert [record.getMessage().split()[-1] for record in caplog.records] == ["end=1013"]


def test_the_first_messages_of_a_session_may_be_many(open_session, monkeypatch):
    """They tell what was said before the client came; the limits are for slow clients."""
    monkeypatch.setattr(messages, "_MAX_MESSAGES", 4)

    async def run():
        session = open_session()
        said = [{"type": "said", "number": number} for number in range(9)]
        monkeypatch.setattr(session._protocol, "begin", lambda: said)
        queue = session.begin()
        session.close()
        queue.close()
        return queue

    assert drained(asyncio.run(run())) == [*range(9)]


def test_a_session_with_a_token_waits_after_its_client_was_too_slow(run):
    """It can be resumed, because no message was lost."""
    assert run(Socket(sends=0, messages=1), is_resumable=True)


@pytest.mark.parametrize("error", [RuntimeError("closed"), ConnectionResetError()])
def test_a_client_that_left_while_it_was_sent_a_message_may_come_back(run, caplog, error):
    """The RuntimeError that starlette and uvicorn then raise is not a defect of the server."""
    socket = Socket(sends=0, messages=0, error=error)

    assert run(socket, is_resumable=True)
    assert (socket.close_code, [r for r in caplog.records if r.levelname == "ERROR"]) == (None, [])


def test_a_shutdown_does_not_wait_for_a_stream_that_is_being_opened(open_session, opener):
    """The socket closes for a restart, and the opening is cancelled."""

    async def run():
        client = Socket(sends=math.inf, messages=1, text=APPEND)
        session = open_session(open_stream=opener.open_stream)
        serving = asyncio.create_task(serve_session(client, session, session.begin()))
        await turns()
        session.end()
        async with asyncio.timeout(WAIT):
            await serving
        return client.close_code, opener.begun[0].cancelled()

    assert asyncio.run(run()) == (1012, True)


def message(kind, number):
    """Return a message with a number."""
    return encode({"type": kind, "number": number})


def drained(queue):
    """Return the numbers of the waiting messages, and the final None."""

    async def take():
        texts = []
        while (text := await queue.get()) is not None:
            texts.append(json.loads(text)["number"])
        return texts

    return asyncio.run(take())


def test_a_newer_hypothesis_replaces_the_one_that_waits():
    """Only the newest hypothesis is sent; deltas are never replaced."""
    queue = SendQueue({"wlk.hypothesis"})
    kinds = ["wlk.hypothesis", "wlk.hypothesis", "delta", "delta", "wlk.hypothesis"]
    queue.put([message(kind, number) for number, kind in enumerate(kinds)])
    queue.close()

    assert drained(queue) == [1, 2, 3, 4]


def test_a_message_of_any_length_is_sent(monkeypatch):
    """The transcript of an hour exceeds the limit, but is one message."""
    monkeypatch.setattr(messages, "_MAX_CHARACTERS", 10)
    queue = SendQueue()
    queue.put([message("completed", 1)])
    queue.close()

    assert drained(queue) == [1]


@pytest.mark.parametrize(("name", "limit"), [("_MAX_MESSAGES", 2), ("_MAX_CHARACTERS", 40)])
def test_a_queue_that_is_full_ends(monkeypatch, name, limit):
    """The socket of a slow client is closed, instead of dropping a message in the middle."""
    monkeypatch.setattr(messages, name, limit)
    queue = SendQueue()
    queue.put([message("delta", number) for number in range(3)])

    assert queue.is_full
    assert drained(queue) == []


def test_a_queue_has_room_while_less_than_half_of_it_is_used(monkeypatch):
    """Its client is not read until some messages are taken, or the queue is closed."""
    monkeypatch.setattr(messages, "_MAX_MESSAGES", 4)
    queue = SendQueue()
    queue.put([message("delta", 0)])
    seen = [queue.has_room.is_set()]
    queue.put([message("delta", 1)])
    seen.append(queue.has_room.is_set())
    asyncio.run(queue.get())
    seen.append(queue.has_room.is_set())
    queue.put([message("delta", number) for number in range(2)])
    queue.close()
    queue.put([message("delta", 2)])

    assert [*seen, queue.has_room.is_set()] == [True, False, True, True]


def timers_of(loop, monkeypatch):
    """Return a list that grows with each timer of *loop*."""
    timers, call_at = [], loop.call_at

    def counted(*arguments, **options):
        timers.append(arguments)
        return call_at(*arguments, **options)

    monkeypatch.setattr(loop, "call_at", counted)
    return timers


def test_a_client_whose_audio_waits_is_read_after_a_step_and_without_a_timer(
    open_session, streams, monkeypatch
):
    """A step wakes its socket from another thread; until it has decoded enough, it waits again."""

    async def run():
        session = open_session()
        queue = session.begin()
        await session.receive(queue, APPEND)
        (stream,) = streams
        stream.backlog_seconds = 500.0
        timers = timers_of(asyncio.get_running_loop(), monkeypatch)
        reading = asyncio.create_task(session.give_way(queue))
        await turns()
        seen = [reading.done()]
        for stream.backlog_seconds in (450.0, 399.0):
            await asyncio.to_thread(stream.after_step)
            await turns()
            seen.append(reading.done())
        session.close()
        return seen, timers

    seen, timers = asyncio.run(run())

    assert seen == [False, False, True]
    assert timers == []


@pytest.mark.parametrize("end", ["close", "clear"])
def test_a_client_whose_waiting_audio_is_dropped_is_read_at_once(open_session, streams, end):
    """No step follows that could wake its socket."""

    async def run():
        session = open_session()
        queue = session.begin()
        await session.receive(queue, APPEND)
        (stream,) = streams
        stream.backlog_seconds = 500.0
        reading = asyncio.create_task(session.give_way(queue))
        await turns()
        assert not reading.done()
        stream.backlog_seconds = 0.0  # as of any stream that is closed
        if end == "clear":
            await session.receive(queue, '{"type": "input_audio_buffer.clear"}')
        else:
            session.close()
        await asyncio.wait_for(reading, WAIT)

    asyncio.run(run())


def test_a_client_that_reads_slowly_is_read_once_its_queue_has_room(open_session, monkeypatch):
    """The message that makes room wakes the reader, the earlier ones do not; nor does a timer."""
    monkeypatch.setattr(messages, "_MAX_MESSAGES", 4)

    async def run():
        session = open_session()
        queue = SendQueue()
        queue.put([message("delta", number) for number in range(3)])
        timers = timers_of(asyncio.get_running_loop(), monkeypatch)
        reading = asyncio.create_task(session.give_way(queue))
        await turns()
        seen = [reading.done()]
        for _ in range(2):
            await queue.get()
            await turns()
            seen.append(reading.done())
        session.close()
        return seen, timers

    seen, timers = asyncio.run(run())

    assert seen == [False, False, True]
    assert timers == []


def test_a_queue_that_is_closed_wakes_its_reader(monkeypatch):
    """Another socket took the session over."""
    monkeypatch.setattr(messages, "_MAX_MESSAGES", 2)

    async def run():
        queue = SendQueue()
        queue.put([message("delta", 0)])
        waiting = asyncio.create_task(queue.has_room.wait())
        await turns()
        assert not waiting.done()
        queue.close(drops=True)
        await asyncio.wait_for(waiting, WAIT)

    asyncio.run(run())
