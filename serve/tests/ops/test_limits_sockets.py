"""Limits over real sockets: their status or close code, and the words before it."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

pytest.importorskip("faster_whisper")

from wlk_conformance.testing.digits import clip_path
from wlk_serve.admission import Limits

pytestmark = pytest.mark.slow
KEY = {"x-api-key": "secret"}
SECOND = base64.b64encode(bytes(48_000)).decode()
APPEND = json.dumps({"type": "input_audio_buffer.append", "audio": SECOND})


@pytest.fixture
def serve_limited(serve, digits):
    """Return a context manager that runs a server with limits and yields its address."""
    return lambda **limits: serve(digits, Limits(**limits))


def socket_url(address):
    """Return the WebSocket address of the server."""
    return address.replace("http", "ws") + "/realtime"


def read_to_the_end(socket):
    """Return the types and codes of the remaining messages, and the close code."""
    found = []
    try:
        while True:
            message = json.loads(socket.recv(60))
            found.append(message["error"]["code"] if "error" in message else message["type"])
    except ConnectionClosed as closed:
        return found, closed.rcvd.code


def test_a_client_that_sends_nothing_is_closed(serve_limited):
    """The close has the reason, because clients end their calls on an error event."""
    with (
        serve_limited(idle_seconds=0.2) as (address, _),
        connect(socket_url(address), additional_headers=KEY) as socket,
    ):
        found, code = read_to_the_end(socket)

    assert (found, code) == (["session.created"], 1000)
    assert socket.close_reason == "idle for 0.2 s"


def test_a_session_that_lasts_too_long_ends_with_its_words(serve_limited):
    """Its audio so far is completed before it ends."""
    with (
        serve_limited(max_session_seconds=0.5) as (address, _),
        connect(socket_url(address), additional_headers=KEY) as socket,
    ):
        session = {"audio": {"input": {"turn_detection": None}}}
        socket.send(json.dumps({"type": "session.update", "session": session}))
        socket.send(APPEND)
        found, code = read_to_the_end(socket)

    assert code == 1000
    assert found[-1] == "conversation.item.input_audio_transcription.completed"


def test_sessions_of_one_key_are_limited(serve_limited, fetch):
    """The refusal comes before the socket is accepted."""
    with (
        serve_limited(max_sessions_per_key=1) as (address, _),
        connect(socket_url(address), additional_headers=KEY) as socket,
    ):
        socket.recv(30)
        with (
            pytest.raises(InvalidStatus) as refused,
            connect(socket_url(address), additional_headers=KEY),
        ):
            pass
        status, text, _ = fetch(address, "GET", "/metrics")

    assert refused.value.response.status_code == 429
    assert refused.value.response.headers["retry-after"] == "5"
    assert status == 200
    assert 'wlk_rejected_total{reason="rate_limit_exceeded"} 1.0' in text
    assert 'wlk_sessions{protocol="realtime",state="connected"} 1.0' in text


def test_a_recording_that_lasts_too_long_is_refused(serve_limited, post_form):
    """Its length becomes known while it is decoded."""
    recording = Path(clip_path("demo")).read_bytes()
    with serve_limited(max_audio_seconds=1.0) as (address, _):
        status, text = post_form(address, recording, model="digits")

    assert (status, json.loads(text)["error"]["code"]) == (413, "audio_too_long")
