"""The events of a Realtime session, against the published types of OpenAI's API."""

from __future__ import annotations

import json
from typing import get_args

import attrs
import pytest

pytest.importorskip("openai")

from openai.types.realtime import ClientSecretCreateResponse, RealtimeServerEvent
from pydantic import TypeAdapter

from wlk_conformance.protocols import PlayedStream, speech
from wlk_core.errors import BackendError
from wlk_core.tokens import SpeakerSpan
from wlk_live.session import Failure, SpeakerTurn

from .conftest import OpenedProtocol

UNION, *_ = get_args(RealtimeServerEvent)
KINDS = {
    name: kind
    for kind in get_args(UNION)
    for name in get_args(kind.model_fields["type"].annotation)
}
ITEM = "conversation.item.input_audio_transcription"
EXPECTED = {
    "conversation.item.added",
    "conversation.item.done",
    *(f"{ITEM}.{name}" for name in ("completed", "delta", "failed", "segment")),
    "error",
    *(
        f"input_audio_buffer.{name}"
        for name in ("cleared", "committed", "speech_started", "speech_stopped")
    ),
    "session.created",
    "session.updated",
}
INCLUDE = {"include": ["item.input_audio_transcription.logprobs"]}


@pytest.fixture
def events(card):
    """Return the events of a session in which everything happens that can happen."""
    streams, found = [], []

    def open_stream(options):
        streams.append(PlayedStream(options))
        return streams[-1]

    def send(data):
        found.extend(protocol.receive(data))
        for stream in streams:
            found.extend(protocol.handle(stream, stream.take()))

    protocol = OpenedProtocol(attrs.evolve(card, speaker_delay=0.5), open_stream)
    found += protocol.begin()
    send(json.dumps({"type": "session.update", "session": INCLUDE}))
    send(speech([0, 1, None, 2, *[None] * 9], 24_000))
    found.extend(protocol.handle(streams[0], [SpeakerTurn(SpeakerSpan("a", 0.0, 1.3), 1.3)]))
    send("{")
    send(speech([3], 24_000))
    found.extend(protocol.handle(streams[0], [Failure(BackendError("lost"), True, 2.0)]))
    other = OpenedProtocol(card, open_stream)
    found += other.receive('{"type": "input_audio_buffer.clear"}')
    return found


def test_every_event_has_the_required_fields(events):
    """Clients with typed models refuse an event without one of them, or with null in it."""
    for event in events:
        TypeAdapter(KINDS[event["type"]]).validate_python(event, strict=True)

    assert {event["type"] for event in events} == EXPECTED


def test_a_client_secret_has_the_required_fields(events):
    """Its session has the fields of the first event's."""
    session = events[0]["session"]
    record = {"value": "ek_1", "expires_at": 1, "session": session}

    answer = TypeAdapter(ClientSecretCreateResponse).validate_python(record, strict=True)

    assert answer.value == "ek_1"
