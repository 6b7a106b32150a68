"""Sessions with several channels: how they are counted, ended and completed."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from wlk_core.processor import StreamStats
from wlk_live.session import End
from wlk_serve.admission import Admission, Limits
from wlk_serve.blocking_work import BlockingWork
from wlk_serve.errors import RequestError
from wlk_serve.ops.metrics import Metrics
from wlk_serve.ops.running import RunningSessions
from wlk_serve.protocols import Opening, SocketRoute, StreamOptions
from wlk_serve.sessions.sockets import SessionSockets

END = End(audio_time=1.0, stats=StreamStats(), latency=None)


class TwoChannels:
    """A protocol that sends all audio to both of its channels, and what it hears of them."""

    replaceable = ()

    def __init__(self, audio, info):
        self.audios = [
            audio,
            info.open_channel(StreamOptions(), lambda event: self.heard(1, event)),
        ]

    def begin(self):
        """Return nothing."""
        return []

    def heard(self, channel, event):
        """Name the channel and the event."""
        return [{"channel": channel, "event": type(event).__name__}]

    def handle(self, event):
        """Apply an event of the first channel."""
        return self.heard(0, event)

    def receive(self, data):
        """Append audio to both."""
        for audio in self.audios:
            audio.append(data)
        return []

    def refuse(self, error):
        """Return the error."""
        return [{"error": str(error)}]

    def end(self):
        """End both."""
        for audio in self.audios:
            audio.end()
        return []


class Socket:
    """A client that sends two bytes, and then leaves, or waits."""

    def __init__(self, leaves):
        self.sent, self.refusal = [], None
        self.scope, self.headers, self.query_params = {}, {}, {}
        self._messages = [{"type": "websocket.receive", "bytes": bytes(2)}]
        if leaves:
            self._messages.append({"type": "websocket.disconnect", "code": 1000})

    async def accept(self, _subprotocol):
        """Be accepted."""

    async def receive(self):
        """Return a message, or wait for ever."""
        if not self._messages:
            await asyncio.Event().wait()
        return self._messages.pop(0)

    async def send_text(self, text):
        """Take a message."""
        self.sent.append(text)

    async def close(self, code, _reason):
        """Store the code."""
        self.code = code

    async def send_denial_response(self, response):
        """Store the refusal."""
        self.refusal = response


@pytest.fixture
def serve(card, open_stream, streams):
    """Return a function that serves a client until it has left; it returns the counts."""

    def serve(socket, *, max_sessions=2, has_readers=False, check_load=lambda: None, order=list):
        limits = Limits(max_sessions=max_sessions)
        running = RunningSessions(limits)
        handlers = []

        async def open_one(options, on_events, **_calls):
            handlers.append(on_events)
            stream = open_stream(options)
            stream.backlog_seconds, stream.commit_times = 0.0, []
            return stream

        service = SimpleNamespace(
            card=card,
            metrics=Metrics(),
            open_stream=open_one,
            blocking_work=BlockingWork(),
            check_load=check_load,
        )
        opening = Opening(
            make=TwoChannels, card=card, options=StreamOptions(), has_readers=has_readers
        )
        route = SocketRoute(
            protocol="two", path="/two", open=lambda _handshake: opening, keys=lambda _socket: []
        )
        counts = []

        async def run():
            sockets = SessionSockets(service, Admission(), running, limits)
            await sockets.serve(route, socket)
            counts.append(len(running))
            for handle, stream in order([*zip(handlers, streams, strict=True)]):
                handle(stream, [END])
                counts.append(len(running))

        asyncio.run(run())
        return counts

    return serve


def test_each_channel_is_counted_as_a_session(serve, streams):
    """Until the session is over, and each has a stream of its own."""
    counts = serve(Socket(leaves=True))

    assert [stream.calls[0] for stream in streams] == [("receive", 1)] * 2
    assert counts == [0, 0, 0]


def test_a_client_with_more_channels_than_are_left_is_refused(serve):
    """It gets the status of a full server, and nothing stays counted."""
    socket = Socket(leaves=True)
    counts = serve(socket, max_sessions=1)

    assert (socket.refusal.status_code, counts) == (503, [0])
    assert b"the limit of 1 sessions is reached" in socket.refusal.body


def test_a_client_with_more_channels_than_the_engine_can_serve_is_refused(serve):
    """A further channel is as much work as another session."""
    checks = []

    def check_load():
        checks.append(1)
        if len(checks) > 1:
            raise RequestError("the running sessions are 2 s late", status=503)

    socket = Socket(leaves=True)
    counts = serve(socket, check_load=check_load)

    assert (socket.refusal.status_code, counts) == (503, [0])


def test_a_session_with_readers_is_completed_after_its_socket_is_lost(serve, streams):
    """It stays counted until every channel has ended."""
    counts = serve(Socket(leaves=True), has_readers=True)

    assert [stream.calls[:2] for stream in streams] == [[("receive", 1), ("end_audio",)]] * 2
    assert counts == [2, 2, 0]


def test_a_channel_that_is_over_gives_up_its_place(serve):
    """While the first one still has words to come."""
    counts = serve(Socket(leaves=True), has_readers=True, order=reversed)

    assert counts == [2, 1, 0]


def test_a_protocol_is_told_when_it_cannot_have_a_channel():
    """As in a test that plays a session without a server."""
    from wlk_conformance.protocols import CARD  # noqa: PLC0415
    from wlk_serve.protocols import SessionInfo  # noqa: PLC0415

    with pytest.raises(RequestError, match="cannot have another channel"):
        SessionInfo(id="1", card=CARD).open_channel(StreamOptions(), list)
