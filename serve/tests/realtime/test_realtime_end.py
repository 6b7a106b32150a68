"""A client that ends its session gets the last words and speakers, and then the end."""

from __future__ import annotations

import base64
import json

import pytest

from wlk_core.processor import StreamStats
from wlk_core.session.events import Commit, End

from .conftest import OpenedProtocol

END = '{"type": "wlk.end"}'
SECOND = base64.b64encode(bytes(48_000)).decode()  # of 16-bit samples at 24 kHz
APPEND = json.dumps({"type": "input_audio_buffer.append", "audio": SECOND})
MANUAL = '{"type": "session.update", "session": {"audio": {"input": {"turn_detection": null}}}}'


@pytest.fixture
def protocol(card, open_stream, new_id):
    """Return a session in which the client commits."""
    protocol = OpenedProtocol(card, open_stream, new_id=new_id)
    protocol.receive(MANUAL)
    return protocol


def last_events(token):
    """Return what a stream reports after its end."""
    end = End(audio_time=1.0, stats=StreamStats(), latency=None)
    return [Commit((token(" zero"),), 1.0), end]


def test_the_last_words_come_after_the_end_and_without_a_commit(protocol, streams, token):
    """The session is over with them."""
    protocol.receive(APPEND)

    assert [] == protocol.receive(END)
    assert ("end_audio",) in streams[0].calls
    assert not protocol.audio.is_over
    assert "zero" == protocol.handle(streams[0], last_events(token))[-1]["transcript"]
    assert protocol.audio.is_over


def test_a_session_without_audio_is_over_at_once(protocol):
    """Nothing is left to come."""
    assert [] == protocol.receive(END)
    assert protocol.audio.is_over


def test_a_second_end_is_no_error_and_audio_after_it_is_one(protocol):
    """A client that resumes sends its last message again."""
    protocol.receive(APPEND)
    protocol.receive(END)

    assert [] == protocol.receive(END)
    (error,) = protocol.receive(APPEND)
    assert "session_expired" == error["error"]["code"]
