"""OpenAI's protocol keeps the rules for every protocol."""

from __future__ import annotations

import base64
import json

from hypothesis import given, strategies
import pytest

from wlk_conformance.protocols import RULES, Client, PlayedSession, SilentStream
from wlk_core.tokens import ASRToken
from wlk_live.session.events import Commit, Endpoint, SpeechStarted
from wlk_serve.realtime.route import routes

JSON = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.floats()
    | strategies.text(max_size=5)
    | strategies.sampled_from(["played", "en", "server_vad", "audio/pcm", "AAAA", ""]),
    lambda inner: (
        strategies.lists(inner, max_size=3)
        | strategies.dictionaries(
            strategies.sampled_from(["type", "rate", "model", "language", "prompt", "threshold"])
            | strategies.text(max_size=3),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


def objects(*names, inner=JSON):
    """Return a strategy for objects with some of the fields, or other JSON."""
    return strategies.fixed_dictionaries({}, optional=dict.fromkeys(names, inner)) | JSON


INPUTS = objects("format", "transcription", "turn_detection", "other")
SESSIONS = objects("audio", inner=objects("input", inner=INPUTS)) | objects("include", "type")
BUFFER = [f"input_audio_buffer.{name}" for name in ("append", "commit", "clear")]
KINDS = strategies.sampled_from([*BUFFER, "session.update", "conversation.item.retrieve"])
AUDIO = strategies.binary(max_size=8).map(lambda data: base64.b64encode(data).decode())
MESSAGES = strategies.fixed_dictionaries(
    {"type": KINDS | JSON},
    optional={"session": SESSIONS, "audio": AUDIO | JSON, "event_id": JSON},
).map(json.dumps)
EVENTS = strategies.sampled_from(
    [
        SpeechStarted(0.25, 0.5),
        Commit((ASRToken(0.25, 0.5, " zero"), ASRToken(0.5, 0.75, " one\ud800")), 1.0),
        Endpoint(1.0, "silence", 1.0),
        Endpoint(1.0, "commit", 1.0),
        Endpoint(1.0, "end", 1.0),
    ]
)
ACTIONS = MESSAGES | JSON.map(json.dumps) | strategies.text() | strategies.binary() | EVENTS


def append(part):
    """Return the message that appends a part of the audio."""
    audio = base64.b64encode(part).decode()
    return [json.dumps({"type": "input_audio_buffer.append", "audio": audio})]


def text(messages):
    """Return the joined transcripts of the items."""
    items = [message for message in messages if message["type"].endswith(".completed")]
    return " ".join(message["transcript"] for message in items)


CLIENT = Client(
    route=routes()[0], rate=24_000, audio=append, end=['{"type": "wlk.end"}'], text=text
)


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_is_kept(rule):
    """The PRO rules are in docs/protocols.md."""
    assert RULES[rule][1](CLIENT) is None


@pytest.mark.slow
@given(actions=strategies.lists(ACTIONS, max_size=12))
def test_no_message_of_a_client_raises(actions):
    """Every answer is JSON with a type; every completed item equals its joined deltas."""
    session, deltas = PlayedSession(CLIENT, SilentStream), {}
    for action in actions:
        if isinstance(action, str | bytes):
            answers = session.send(action)
        else:
            answers = session.happen(action) if session.audio.segments else []
        for answer in json.loads(json.dumps(answers, allow_nan=False)):
            kind = answer["type"].rsplit(".")[-1]
            if kind == "delta":
                deltas[answer["item_id"]] = deltas.get(answer["item_id"], "") + answer["delta"]
            elif kind == "completed":
                assert deltas.get(answer["item_id"], "") == answer["transcript"]
