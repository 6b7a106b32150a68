"""Every message of vLLM's endpoint, as docs and client take it to be."""

from __future__ import annotations

import base64
import json

from bursts import STEP
import pytest
from websockets.sync.client import connect

UPDATE = {"type": "session.update", "model": "voxtral"}
START = {"type": "input_audio_buffer.commit"}
FINAL = {"type": "input_audio_buffer.commit", "final": True}
SECONDS = 60


def append(steps):
    """Return a message with silence."""
    data = base64.b64encode(bytes(2 * steps * STEP)).decode()
    return {"type": "input_audio_buffer.append", "audio": data}


@pytest.fixture
def socket(url):
    """Return a connection that was greeted."""
    with connect(url) as connection:
        greeting = json.loads(connection.recv(timeout=SECONDS))
        assert "session.created" == greeting["type"]
        assert {"type", "id", "created"} == set(greeting)
        yield connection


def send(connection, *messages):
    """Send *messages*."""
    for message in messages:
        connection.send(message if isinstance(message, str) else json.dumps(message))


def received(connection):
    """Return the messages of the server up to one that is no delta."""
    messages = []
    while not messages or messages[-1]["type"] == "transcription.delta":
        messages.append(json.loads(connection.recv(timeout=SECONDS)))
    return messages


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        (["not json"], "invalid_json"),
        ([{"type": "session.update", "session": {"type": "transcription"}}], "invalid_event"),
        ([{"type": "session.update", "model": "large"}], "model_not_found"),
        ([START], "model_not_validated"),
        ([UPDATE, {"type": "input_audio_buffer.append", "audio": ""}], "invalid_audio"),
        ([UPDATE, {"type": "input_audio_buffer.append", "audio": "AAAA"}], "invalid_audio"),
        ([{"type": "wlk.mark", "id": "1"}], "unknown_event"),
    ],
)
def test_an_error_is_a_text_and_a_code_and_the_session_goes_on(socket, messages, code):
    """The error is no object as at OpenAI."""
    send(socket, *messages)
    (error,) = received(socket)
    send(socket, UPDATE, START, append(1), FINAL)

    assert ("error", code) == (error["type"], error["code"])
    assert isinstance(error["error"], str)
    assert "transcription.done" == received(socket)[-1]["type"]


@pytest.mark.parametrize("steps", [1, 4, 25])
def test_a_generation_has_a_text_for_each_step_and_ten_more(socket, steps):
    """Empty texts included, and the usage counts them."""
    send(socket, UPDATE, START, append(steps), FINAL)
    *deltas, done = received(socket)

    assert steps + 10 == len(deltas) == done["usage"]["completion_tokens"]
    assert 39 == done["usage"]["prompt_tokens"]


def test_audio_after_the_end_is_lost_and_a_second_commit_is_ignored(socket, engine):
    """The faults that the client works around."""
    send(socket, UPDATE, START, append(10), START, FINAL, append(5))
    first = received(socket)
    send(socket, START, FINAL)
    second = received(socket)

    assert (21, 2) == (len(first), engine.generations)
    assert 0 == second[-1]["usage"]["completion_tokens"]


def test_a_generation_ends_quietly_at_max_model_len(socket, engine):
    """With the message of any other end."""
    engine.max_model_len = 39 + 20
    send(socket, UPDATE, START, append(100), FINAL)
    *deltas, done = received(socket)

    assert (20, 20) == (len(deltas), done["usage"]["completion_tokens"])
