from __future__ import annotations

import base64
from collections import Counter
import json

import attrs
from hypothesis import given, strategies
import pytest

from wlk_core.backend import BackendSpec
from wlk_core.session.events import Commit, Endpoint, SpeechStarted
from wlk_core.tokens import ASRToken
from wlk_serve.models.card import ModelCard

from .conftest import OpenedProtocol

JSON = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.floats()
    | strategies.text(max_size=5)
    | strategies.sampled_from(["small", "en", "server_vad", "audio/pcm", "pcm16", "AAAA", ""]),
    lambda inner: (
        strategies.lists(inner, max_size=3)
        | strategies.dictionaries(
            strategies.sampled_from(
                ["type", "rate", "model", "language", "prompt", "threshold", "silence_duration_ms"]
            )
            | strategies.text(max_size=3),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
INPUTS = strategies.fixed_dictionaries(
    {}, optional=dict.fromkeys(("format", "transcription", "turn_detection", "other"), JSON)
)
SESSIONS = strategies.fixed_dictionaries(
    {},
    optional={
        "audio": strategies.fixed_dictionaries({}, optional={"input": INPUTS | JSON}),
        "include": JSON,
        "turn_detection": JSON,
        "input_audio_format": JSON,
        "input_audio_transcription": JSON,
    },
)
KINDS = strategies.sampled_from(
    [
        "session.update",
        "transcription_session.update",
        "input_audio_buffer.append",
        "input_audio_buffer.commit",
        "input_audio_buffer.clear",
        "conversation.item.retrieve",
    ]
)
AUDIO = strategies.binary(max_size=8).map(lambda data: base64.b64encode(data).decode())
MESSAGES = strategies.fixed_dictionaries(
    {"type": KINDS | JSON},
    optional={"session": SESSIONS | JSON, "audio": AUDIO | JSON, "event_id": JSON},
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


@attrs.define(eq=False)
class SilentStream:
    """A stream whose events the test makes up."""

    def receive(self, audio):
        """Take audio."""

    def commit(self):
        """Take a commit."""

    def end_audio(self):
        """Take the end."""

    def close(self):
        """Be dropped."""


def card():
    """Return the card of a model of one language."""
    spec = BackendSpec(name="toy", api=1, summary="a toy", load="toy:load", languages=("en",))
    return ModelCard(name="small", spec=spec)


@pytest.mark.slow
@given(actions=strategies.lists(ACTIONS, max_size=12))
def test_no_message_of_a_client_raises(actions):
    """Every answer is JSON with a type; every completed item has its joined deltas."""
    streams, counts, deltas = [], Counter(), {}

    def new_id(prefix):
        counts[prefix] += 1
        return f"{prefix}_{counts[prefix]}"

    def open_stream(_config):
        streams.append(SilentStream())
        return streams[-1]

    protocol = OpenedProtocol(card(), open_stream, new_id=new_id)
    for action in actions:
        is_message = isinstance(action, str | bytes)
        if not is_message and not streams:
            continue
        answers = protocol.receive(action) if is_message else protocol.handle(streams[-1], [action])
        for answer in json.loads(json.dumps(answers, allow_nan=False)):
            kind = answer["type"].rsplit(".")[-1]
            if kind == "delta":
                deltas[answer["item_id"]] = deltas.get(answer["item_id"], "") + answer["delta"]
            elif kind == "completed":
                assert deltas.get(answer["item_id"], "") == answer["transcript"]
