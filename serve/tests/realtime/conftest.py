"""Fixtures: the protocol of a Realtime session, over streams that record their calls."""

from __future__ import annotations

import base64
import json

import pytest

from wlk_core.errors import WLKError
from wlk_serve.errors import as_request_error
from wlk_serve.protocols import SessionAudio, SessionInfo
from wlk_serve.realtime.config import default_config
from wlk_serve.realtime.protocol import RealtimeProtocol

MANUAL = {"audio": {"input": {"turn_detection": None}}}
SECOND = base64.b64encode(bytes(48_000)).decode()  # of 16-bit samples at 24 kHz


class OpenedProtocol:
    """A protocol whose streams are opened at once, by a function."""

    def __init__(self, card, open_stream):
        self._open_stream = open_stream
        config, info = default_config(card), SessionInfo(id="0", card=card)
        self.audio = SessionAudio(config.stream_options())
        self._protocol = RealtimeProtocol(self.audio, info, config=config)
        self.begin, self.end = self._protocol.begin, self._protocol.end

    def receive(self, data):
        """Open the stream that a message needs; return the answers to the message."""
        try:
            answers = self._protocol.receive(data)
        except WLKError as error:  # as the server does
            answers = self._protocol.refuse(as_request_error(error))
        while self.audio.is_waiting:
            if self.audio.open_segment is None:
                while self.audio.is_full:
                    self.make_room()
                self.audio.open(self._open_stream(self.audio.options))
            self.audio.proceed()
        return answers

    def make_room(self):
        """End an earlier stream, for which the server would wait."""
        raise AssertionError

    def handle(self, stream, events):
        """Return the messages that report a stream's events."""
        return [
            message
            for event in self.audio.events(stream, events)
            for message in self._protocol.handle(event)
        ]


@pytest.fixture
def protocol(card, open_stream):
    """Return the protocol of a session over streams that record their calls."""
    return OpenedProtocol(card, open_stream)


@pytest.fixture
def client(protocol):
    """Return a function that sends a message of a type and returns the answers."""

    def client(kind, **fields):
        kind = kind if "." in kind else f"input_audio_buffer.{kind}"
        return protocol.receive(json.dumps({"type": kind, **fields}))

    return client


@pytest.fixture
def manual(client):
    """Return the client of a session without voice activity detection."""
    client("session.update", session=MANUAL)
    return client
