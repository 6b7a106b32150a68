"""A server keeps nothing of the clients that have left it."""

from __future__ import annotations

import asyncio
from contextlib import closing
import gc
import json
import os
import socket as sockets
import threading
import weakref

import pytest
from websockets.sync.client import connect

pytest.importorskip("faster_whisper")

from wlk_serve.models.service import Service
from wlk_serve.protocols import ModelCard, StreamOptions

pytestmark = pytest.mark.slow
UPDATE = json.dumps({"type": "session.update", "session": {}})


def leave_properly(socket):
    """Close the socket with a close frame."""
    socket.close()


def vanish(socket):
    """Drop the connection without a close frame, like a killed process."""
    socket.socket.shutdown(sockets.SHUT_RDWR)


def break_off(socket):
    """Drop the connection in the middle of a message."""
    socket.socket.sendall(b"\x82\xfe\xff\xff\0\0\0\0half of a message")
    socket.socket.shutdown(sockets.SHUT_RDWR)


def use_and_leave(address, leave, *, is_resumable):
    """Open a session, send a second of audio and leave."""
    url = address.replace("http", "ws") + "/realtime" + "?wlk_resume=1" * is_resumable
    with connect(url, additional_headers={"x-api-key": "secret"}) as socket:
        socket.recv(30)
        socket.send(UPDATE)
        socket.send(bytes(48_000))
        socket.recv(30)
        leave(socket)


def handles():
    """Return how many file descriptors and threads this process has."""
    gc.collect()
    return len(os.listdir("/proc/self/fd")), threading.active_count()  # noqa: PTH208 -- a count


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts files of Linux")  # noqa: PTH112
def test_sessions_that_come_and_go_leave_no_handle_and_no_thread(digits, serve):
    """This holds however their clients leave."""
    with serve(digits) as (address, _):
        use_and_leave(address, leave_properly, is_resumable=False)
    before = handles()
    with serve(digits) as (address, server):
        for leave in [leave_properly, vanish, break_off] * 7:
            use_and_leave(address, leave, is_resumable=False)
        use_and_leave(address, leave_properly, is_resumable=True)
        sessions = server
    after = handles()

    assert after == before
    assert sessions.server_state.connections == set()


def test_a_stream_that_is_closed_frees_its_model_at_once(digits):
    """Python's garbage collector does not count native memory, and would let it grow."""
    backend, spec = digits

    async def opened(service):
        stream = await service.open_stream(StreamOptions(), lambda _stream, _events: None)
        freed = weakref.ref(stream.session)
        stream.close()
        return stream, freed

    gc.disable()
    try:
        with closing(Service(backend, ModelCard.of(spec, "digits", "en"))) as service:
            stream, freed = asyncio.run(opened(service))
        assert freed() is None
        assert stream.backlog_seconds == 0.0
    finally:
        gc.enable()
