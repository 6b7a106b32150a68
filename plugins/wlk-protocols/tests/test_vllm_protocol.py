"""The protocol answers the messages of vLLM's clients."""

from __future__ import annotations

import base64
import json
import tracemalloc
from types import SimpleNamespace

from hypothesis import given, strategies
import pytest

from wlk_conformance.protocols import CARD, RULES, Client, PlayedSession, SilentStream
from wlk_core.processor import StreamStats
from wlk_core.tokens import ASRToken
from wlk_live.session import Commit, End, Endpoint
from wlk_protocols.vllm.routes import routes


def append(part):
    """Return the message that appends a part of the audio."""
    audio = base64.b64encode(part).decode()
    return [json.dumps({"type": "input_audio_buffer.append", "audio": audio})]


def text(messages):
    """Return the joined text of all transcriptions."""
    done = [message for message in messages if message["type"] == "transcription.done"]
    return " ".join(message["text"] for message in done)


CLIENT = Client(
    route=routes()[0],
    begin=[
        '{"type": "session.update", "model": "played"}',
        '{"type": "input_audio_buffer.commit"}',
    ],
    audio=append,
    end=['{"type": "input_audio_buffer.commit", "final": true}'],
    text=text,
)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_of_every_protocol_is_kept(rule):
    """PRO rules: docs/protocols.md."""
    assert RULES[rule][1](CLIENT) is None


SECOND = base64.b64encode(bytes(32_000)).decode()
UPDATE = {"type": "session.update", "model": "played"}
APPEND = {"type": "input_audio_buffer.append", "audio": SECOND}
START = {"type": "input_audio_buffer.commit"}
FINAL = {"type": "input_audio_buffer.commit", "final": True}


class Session(PlayedSession):
    """A session on a stream without events; messages can be objects."""

    def __init__(self):
        super().__init__(CLIENT, SilentStream)

    def send(self, *messages):
        """Return the answers to *messages*."""
        texts = (m if isinstance(m, str | bytes) else json.dumps(m) for m in messages)
        return super().send(*texts)


@pytest.fixture
def client():
    """Return a client that has named the model."""
    client = Session()
    client.send(UPDATE)
    return client


def committed(text):
    """Return the event of a committed word."""
    return Commit((ASRToken(0.0, 0.5, text),), 1.0)


ENDPOINT = Endpoint(1.0, "commit", 1.0)
END = End(audio_time=1.0, stats=StreamStats(), latency=None)


def test_a_connection_begins_as_at_vllm(client):
    """`session.created` has its id and time at the top level."""
    (created,) = client.protocol.begin()

    assert (created["type"], created["id"]) == ("session.created", "sess_0")
    assert isinstance(created["created"], int)


def test_the_joined_deltas_are_the_text(client):
    """The usage counts the words."""
    client.send(START, APPEND)
    messages = client.happen(committed(" zero"), committed(" one"))
    client.send(FINAL)
    messages += client.happen(committed(" two"), ENDPOINT)

    *deltas, done = messages
    assert [message["delta"] for message in deltas] == [" zero", " one", " two"]
    assert (done["type"], done["text"]) == ("transcription.done", " zero one two")
    assert done["usage"]["completion_tokens"] == 3


def test_no_audio_is_done_at_once(client):
    """A final commit without audio is answered by one transcription.done with empty text."""
    (done,) = client.send(START, FINAL)

    assert (done["type"], done["text"]) == ("transcription.done", "")


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
        ({"type": "input_audio_buffer.append", "audio": 1}, "invalid_event"),
        ({"type": ["session.update"]}, "invalid_event"),
        ('{"type": "session.update", "model": "\\ud800"}', "invalid_json"),
        ("[" * 100_000, "invalid_event"),
        (b"\0", "invalid_json"),
    ],
)
def test_a_wrong_message_is_answered_and_nothing_changes(client, message, code):
    """`error` is a string, unlike OpenAI's; the session keeps its model."""
    (error,) = client.send(message)

    assert (error["type"], error["code"]) == ("error", code)
    assert isinstance(error["error"], str)
    assert client.audio.samples == 0
    assert client.send(START) == []


def test_fields_that_nobody_reads_cost_no_memory(client):
    """A message of 7 MB with a million objects would become 300 MB if it were built."""
    message = f'{{"type": "session.update", "model": "played", "x": [{"{},{}," * 500_000}{{}}]}}'
    tracemalloc.start()
    answers = client.send(message)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert answers == []
    assert peak < 2 * len(message)


def test_the_first_subprotocol_that_is_offered_is_accepted():
    """Browsers fail a connection that accepts none of the offered ones."""
    handshake = SimpleNamespace(
        query={}, subprotocols=["realtime", "openai-insecure-api-key.k"], card=lambda _name: CARD
    )

    assert CLIENT.route.open(handshake).subprotocol == "realtime"


def test_a_commit_needs_the_model():
    """A commit before session.update is refused with model_not_validated."""
    (error,) = Session().send(START)

    assert error["code"] == "model_not_validated"


@given(strategies.lists(strategies.sampled_from([APPEND, START, FINAL, "text", "done"])))
def test_no_message_order_loses_or_repeats_text(actions):
    """The joined deltas, and the joined transcriptions, have every word once."""
    client, finals, words, messages = Session(), 0, 0, []
    client.send(UPDATE)
    for action in actions:
        if action == "text" and client.audio.segments:
            messages += client.happen(committed(f" {words}"))
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
    expected = "".join(f" {number}" for number in range(words))
    assert "".join(deltas) == expected
    assert "".join(texts) == expected
    assert len(texts) == finals + 1
