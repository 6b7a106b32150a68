"""Speakers of a Realtime session: segments of an item, and `speaker` on its words."""

from __future__ import annotations

import attrs
import pytest

from wlk_core.errors import BackendError
from wlk_core.processor import StreamStats
from wlk_core.tokens import SpeakerSpan
from wlk_live.session.events import (
    Commit,
    End,
    Endpoint,
    Failure,
    SpeakerTurn,
    SpeechStarted,
)

from .conftest import MANUAL, SECOND, OpenedProtocol


@pytest.fixture
def card(card):
    """Return the card of a server with a diarizer."""
    return attrs.evolve(card, speaker_delay=1.0)


@pytest.fixture
def happen(protocol, streams):
    """Return a function that reports events of a stream and returns the messages."""

    def happen(*events, stream=-1):
        return protocol.handle(streams[stream], events)

    return happen


def segments(messages):
    """Return the segments among messages."""
    return [message for message in messages if message["type"].endswith(".segment")]


def test_segments_of_an_item_follow_its_completion(client, happen, token):
    """The speaker of the last word may only become known with later audio."""
    client("input_audio_buffer.append", audio=SECOND)
    first = happen(
        SpeechStarted(0.0, 1.0),
        Commit((token(" zero", 0.0, 0.5), token(" one", 0.5, 1.0)), 1.0),
        SpeakerTurn(SpeakerSpan(0, 0.0, 0.5), 1.0),
        Endpoint(1.0, "silence", 1.6),
    )
    later = happen(SpeakerTurn(SpeakerSpan(1, 0.5, 1.5), 3.0))
    completed = next(message for message in first if message["type"].endswith("completed"))

    assert segments(first) == []
    assert [word.get("speaker") for word in completed["words"]] == ["Speaker 1", None]
    names = ("item_id", "id", "start", "end", "speaker", "text")
    assert [tuple(segment[name] for name in names) for segment in segments(later)] == [
        ("item_0_1", "seg_0_1", 0.0, 0.5, "Speaker 1", "zero"),
        ("item_0_1", "seg_0_2", 0.5, 1.0, "Speaker 2", "one"),
    ]
    assert [word["speaker"] for word in segments(later)[1]["words"]] == ["Speaker 2"]


def test_the_end_of_the_audio_settles_every_speaker(protocol, client, happen, token):
    """At the end, the diarizer returns the remaining spans; words without a span get no name."""
    client("session.update", session=MANUAL)
    client("input_audio_buffer.append", audio=SECOND)
    happen(Commit((token(" zero"), token(" one", 0.5, 1.0)), 1.0))
    protocol.end()
    last = happen(
        SpeakerTurn(SpeakerSpan("anna", 0.0, 0.5), 1.0),
        End(audio_time=1.0, stats=StreamStats(), latency=None),
    )

    assert [segment["speaker"] for segment in segments(last)] == ["anna", "unknown"]
    assert last[-3]["type"].endswith("completed")
    assert protocol.audio.is_over


def test_another_stream_counts_on_the_same_clock(client, happen, token):
    """Another language opens another stream, and its diarizer begins at 0."""
    client("input_audio_buffer.append", audio=SECOND)
    language = {"audio": {"input": {"transcription": {"language": "fr"}}}}
    client("session.update", session=language)
    client("input_audio_buffer.append", audio=SECOND)
    happen(End(audio_time=1.0, stats=StreamStats(), latency=None), stream=0)
    messages = happen(
        Commit((token(" un", 0.0, 0.5),), 1.0),
        SpeakerTurn(SpeakerSpan("anna", 0.0, 0.5), 1.0),
        Endpoint(0.5, "silence", 1.0),
    )

    assert [
        (segment["start"], segment["end"], segment["speaker"]) for segment in segments(messages)
    ] == [(1.0, 1.5, "anna")]


def test_a_session_shows_how_late_speakers_come_and_when_none_come_any_more(
    protocol, client, happen, token
):
    """Switching off the diarizer sends no error event, which would make some clients stop."""
    (created,) = protocol.begin()
    client("input_audio_buffer.append", audio=SECOND)
    names = ("turn detector", "diarizer")  # a failure of the first does not affect the speakers
    off = BackendError("out of memory", retryable=False)
    (updated,) = happen(*(Failure(off, False, 1.0, annotator=name) for name in names))
    messages = happen(
        Commit((token(" zero"),), 1.0),
        Endpoint(0.5, "silence", 1.0),
    )

    assert created["session"]["wlk"]["speakers"] == {"seconds": 1.0}
    assert (updated["type"], updated["session"]["wlk"]["speakers"]) == ("session.updated", None)
    assert [segment["speaker"] for segment in segments(messages)] == ["unknown"]


def test_a_server_without_a_diarizer_sends_nothing_of_it(card, open_stream):
    """It sends neither segments nor speaker fields."""
    silent = attrs.evolve(card, speaker_delay=None)
    protocol = OpenedProtocol(silent, open_stream)
    (created,) = protocol.begin()

    assert created["session"]["wlk"] == {"ignored": []}
