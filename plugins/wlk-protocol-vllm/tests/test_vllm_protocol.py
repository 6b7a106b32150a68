"""Messages of vLLM's clients, in and out."""

from __future__ import annotations

import base64
import json

from hypothesis import given, strategies
import pytest

from wlk_conformance.protocols import PlayedSession, SilentStream
from wlk_core.errors import BackendError
from wlk_core.processor import StreamStats
from wlk_core.session import Commit, End, Endpoint, Failure
from wlk_core.tokens import ASRToken

from .client import CLIENTS

SECOND = base64.b64encode(bytes(32_000)).decode()
UPDATE = {"type": "session.update", "model": "played"}
APPEND = {"type": "input_audio_buffer.append", "audio": SECOND}
START = {"type": "input_audio_buffer.commit"}
FINAL = {"type": "input_audio_buffer.commit", "final": True}


class Client(PlayedSession):
    """A session over a stream of which nothing comes; messages may be objects."""

    def __init__(self):
        super().__init__(CLIENTS["vllm"], SilentStream)

    def send(self, *messages):
        """Return the answers to *messages*."""
        texts = (m if isinstance(m, str | bytes) else json.dumps(m) for m in messages)
        return super().send(*texts)


@pytest.fixture
def client():
    """Return a client that has named the model."""
    client = Client()
    client.send(UPDATE)
    return client


def commit(text):
    """Return the event of a committed word."""
    return Commit((ASRToken(0.0, 0.5, text),), 1.0)


ENDPOINT = Endpoint(1.0, "commit", 1.0)
END = End(audio_time=1.0, stats=StreamStats(), latency=None)


def test_a_connection_begins_as_at_vllm(client):
    """Its message has an id and a time at the top."""
    (created,) = client.protocol.begin()

    assert ("session.created", "sess_0") == (created["type"], created["id"])
    assert isinstance(created["created"], int)


def test_the_joined_deltas_are_the_text(client):
    """The usage counts the words."""
    client.send(START, APPEND)
    messages = client.happen(commit(" zero"), commit(" one"))
    client.send(FINAL)
    messages += client.happen(commit(" two"), ENDPOINT)

    *deltas, done = messages
    assert [" zero", " one", " two"] == [message["delta"] for message in deltas]
    assert ("transcription.done", " zero one two") == (done["type"], done["text"])
    assert 3 == done["usage"]["completion_tokens"]


def test_text_before_the_first_commit_waits_for_it(client):
    """Audio may come before the commit that starts."""
    client.send(APPEND)

    assert [] == client.happen(commit(" zero"))
    assert [{"type": "transcription.delta", "delta": " zero"}] == client.send(START)


def test_a_transcription_follows_the_last_one(client):
    """Also where its audio and its commit came before the end of the last one."""
    client.send(START, APPEND, FINAL, APPEND, START)
    first = client.happen(commit(" zero"), ENDPOINT)
    second = client.happen(commit(" one"))
    client.send(FINAL)
    second += client.happen(ENDPOINT)

    assert " zero" == first[-1]["text"]
    assert [" one", None] == [message.get("delta") for message in second]
    assert " one" == second[-1]["text"]


def test_no_audio_is_done_at_once(client):
    """Its text is empty."""
    (done,) = client.send(START, FINAL)

    assert ("transcription.done", "") == (done["type"], done["text"])


def test_a_shutdown_ends_the_transcription_that_runs(client):
    """With all of its words."""
    client.send(START, APPEND)
    client.protocol.end()

    assert " zero" == client.happen(commit(" zero"), END)[-1]["text"]
    assert client.audio.is_over


def test_a_failure_is_an_error_and_no_end(client):
    """Its cause stays in the log."""
    client.send(START, APPEND)

    (error,) = client.happen(Failure(BackendError("GPU 0 is lost"), True, 1.0), END)

    assert "processing_error" == error["code"]
    assert "GPU" not in error["error"]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("{", "invalid_json"),
        ("[]", "invalid_event"),
        ({}, "unknown_event"),
        ({"type": "session.update"}, "invalid_event"),
        ({"type": "session.update", "model": "large"}, "model_not_found"),
        ({"type": "input_audio_buffer.append", "audio": ""}, "invalid_audio"),
        ({"type": "input_audio_buffer.append", "audio": "AA=="}, "invalid_audio"),
        ({"type": "input_audio_buffer.append", "audio": 1}, "invalid_audio"),
        (b"\0", "invalid_json"),
    ],
)
def test_a_wrong_message_is_answered_and_nothing_changes(client, message, code):
    """The text of an error is no object here."""
    (error,) = client.send(message)

    assert ("error", code) == (error["type"], error["code"])
    assert isinstance(error["error"], str)
    assert 0 == client.audio.samples


def test_a_commit_needs_the_model():
    """As at vLLM."""
    (error,) = Client().send(START)

    assert "model_not_validated" == error["code"]


@given(strategies.lists(strategies.sampled_from([APPEND, START, FINAL, "text", "done"])))
def test_any_order_loses_and_doubles_no_text(actions):
    """Every transcription has as many deltas as its text has words."""
    client, finals, words, messages = Client(), 0, 0, []
    client.send(UPDATE)
    for action in actions:
        if action == "text" and client.audio.segments:
            messages += client.happen(commit(f" {words}"))
            words += 1
        elif action == "done" and client.audio.segments and client.audio.segment.commits:
            messages += client.happen(ENDPOINT)
        elif not isinstance(action, str):
            messages += client.send(action)
            finals += action is FINAL
    while client.audio.segments and client.audio.segment.commits:
        messages += client.happen(ENDPOINT)
    messages += client.send(FINAL)
    if client.audio.segments:
        messages += client.happen(ENDPOINT)

    deltas = [message["delta"] for message in messages if message["type"] == "transcription.delta"]
    texts = [message["text"] for message in messages if message["type"] == "transcription.done"]
    assert "".join(f" {number}" for number in range(words)) == "".join(deltas) == "".join(texts)
    assert finals + 1 == len(texts)
