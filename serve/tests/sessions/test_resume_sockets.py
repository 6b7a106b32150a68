"""Sessions that lose real sockets."""

from __future__ import annotations

from contextlib import ExitStack
import json
import socket as sockets

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

pytest.importorskip("faster_whisper")

from wlk_conformance.testing.digits import load_clip

pytestmark = pytest.mark.slow
COMPLETED = "conversation.item.input_audio_transcription.completed"
DELTA = "conversation.item.input_audio_transcription.delta"
CHUNK = 3200  # bytes of 0.1 s
FORMAT = {"type": "audio/pcm", "rate": 16_000}
UPDATE = {
    "type": "session.update",
    "session": {"audio": {"input": {"format": FORMAT, "turn_detection": None}}},
}


class Client:
    """A client that tracks what it received, and sends again what did not arrive."""

    def __init__(self, address, stack):
        self._stack = stack
        self._url = address.replace("http", "ws") + "/realtime"
        audio = load_clip("demo").audio
        self.data = (np.clip(audio, -1, 1) * 32_767).astype("<i2").tobytes()
        self.sent = 0  # bytes of the audio
        self.events = []
        self.token = None
        self.socket = None

    @property
    def last(self):
        """The number of the last received event."""
        return max((event.get("wlk_seq", 0) for event in self.events), default=0)

    @property
    def kinds(self):
        """The types of the received events."""
        return [event["type"] for event in self.events]

    def connect(self):
        """Open a session, or resume it."""
        query, protocols = "?wlk_resume=1", None
        if self.token is not None:
            query, protocols = f"?wlk_last_seq={self.last}", [f"wlk-resume.{self.token}"]
        headers = {"x-api-key": "secret"}
        self.socket = self._stack.enter_context(
            connect(self._url + query, additional_headers=headers, subprotocols=protocols)
        )
        first = json.loads(self.socket.recv(30))
        if first["type"] == "session.created":
            self.token = first["session"]["wlk"]["resume"]["token"]
            self.socket.send(json.dumps(UPDATE))
            self.read_until("session.updated")
        else:
            assert (first["type"], first["wlk_seq"]) == ("session.resumed", self.last)
            self.sent = first["samples"] * 2
        return self

    def send_audio(self, end=None):
        """Send the audio up to byte *end* as binary messages."""
        end = len(self.data) if end is None else end
        while self.sent < end:
            chunk = self.data[self.sent : min(end, self.sent + CHUNK)]
            self.socket.send(chunk)
            self.sent += len(chunk)

    def commit(self):
        """End the utterance."""
        self.socket.send('{"type": "input_audio_buffer.commit"}')

    def read_until(self, kind):
        """Read events until the next one of a type."""
        seen = len(self.events)
        while len(self.events) == seen or self.events[-1]["type"] != kind:
            self.events.append(json.loads(self.socket.recv(60)))

    def read_to_the_end(self):
        """Read events until the socket closes; return the close code."""
        try:
            while True:
                self.events.append(json.loads(self.socket.recv(60)))
        except ConnectionClosed as closed:
            return closed.rcvd.code

    def lose(self):
        """Drop the connection without a close frame, as a network failure does."""
        self.socket.socket.shutdown(sockets.SHUT_RDWR)
        self.socket.close()

    def text(self):
        """Check the deltas; return the transcripts."""
        deltas = "".join(event["delta"] for event in self.events if event["type"] == DELTA)
        transcripts = [event["transcript"] for event in self.events if event["type"] == COMPLETED]
        assert "".join(transcripts) == deltas
        return transcripts


@pytest.fixture(scope="module")
def expected(address):
    """Return the transcripts of a client that loses no connection."""
    with ExitStack() as stack:
        client = Client(address, stack).connect()
        client.send_audio()
        client.commit()
        client.read_until(COMPLETED)
    return client.text()


@pytest.fixture
def open_client(address):
    """Return a function that opens a session with a client, closed after the test."""
    with ExitStack() as stack:
        yield lambda other=address: Client(other, stack).connect()


@pytest.mark.parametrize("cuts", [(1,), (0, 50, 51), (10, 20, 30, 40), (10**6,)])
def test_a_client_that_loses_its_socket_misses_nothing(open_client, expected, cuts):
    """Both sides send again whatever was lost on the way."""
    client = open_client()
    for cut in cuts:
        client.send_audio(min(len(client.data), cut * CHUNK))
        client.lose()
        client.connect()
    client.send_audio()
    client.commit()
    client.read_until(COMPLETED)

    assert client.text() == expected
    assert "wlk.ack" in client.kinds
    numbers = [event["wlk_seq"] for event in client.events]
    assert sorted(set(numbers)) == numbers


def test_a_loss_before_the_last_words_loses_none(open_client, expected):
    """A committed turn is decoded while its client is away, and sent when the client returns."""
    client = open_client()
    client.send_audio()
    client.commit()
    client.read_until("input_audio_buffer.committed")
    client.lose()
    client.connect()
    client.read_until(COMPLETED)

    assert client.text() == expected


@pytest.mark.parametrize(("code", "key"), [(1000, "secret"), (4000, "other")])
def test_a_session_that_is_over_or_of_another_key_cannot_be_resumed(
    open_client, address, code, key
):
    """A close with 1000 ends a session, and a token is useless without its key."""
    client = open_client()
    client.socket.close(code)
    url = f"{address.replace('http', 'ws')}/realtime"
    token = [f"wlk-resume.{client.token}"]
    with connect(url, additional_headers={"x-api-key": key}, subprotocols=token) as other:
        error = json.loads(other.recv(30))
        with pytest.raises(ConnectionClosed) as closed:
            other.recv(30)

    assert (error["type"], error["error"]["code"]) == ("error", "resume_expired")
    assert closed.value.rcvd.code == 4404
    if code != 1000:
        client.connect()  # its own key still resumes it; else the server waits 30 s for it


def test_a_second_socket_takes_the_session_over(open_client, expected):
    """A client need not wait for its old socket to fail."""
    client = open_client()
    client.send_audio(CHUNK)
    old = client.socket
    client.connect()
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            old.recv(30)
    client.send_audio()
    client.commit()
    client.read_until(COMPLETED)

    assert closed.value.rcvd.code == 4409
    assert client.text() == expected


def test_a_shutdown_delivers_the_words_of_a_waiting_session(digits, serve, open_client, expected):
    """The client gets them while the server drains."""
    with serve(digits) as (address, server):
        client = open_client(address)
        client.send_audio()
        client.socket.send(json.dumps(UPDATE))
        client.read_until("session.updated")  # so that all audio has arrived
        client.lose()
        server.handle_exit(15, None)
        client.connect()
        code = client.read_to_the_end()

    assert (code, client.text()) == (1012, expected)
