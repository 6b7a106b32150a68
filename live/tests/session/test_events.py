"""Events on another clock, and as plain data."""

from __future__ import annotations

import json

import attrs
import pytest

from wlk_core import ASRToken, BackendError, Silence, StreamStats, Transcript
from wlk_core.plugins import SpeakerSpan, TranslatedText
from wlk_live import session

TOKENS = (ASRToken(1.0, 1.5, "one"), ASRToken(1.75, 2.0, " two"))
STATS = StreamStats(audio_seconds=4.0)
EVENTS = [
    session.Commit(TOKENS, 4.0),
    session.HypothesisChange(Transcript(TOKENS), 4.0),
    session.SpeechStarted(1.0, 4.0),
    session.SilenceSpan(Silence(2.0, 3.0), 4.0),
    session.AudioGap(2.0, 3.0, 4.0),
    session.Endpoint(2.0, "silence", 4.0),
    session.Marked(
        name="m",
        transcript=Transcript(TOKENS),
        processed_up_to=3.0,
        stable_up_to=2.0,
        stats=STATS,
        audio_time=4.0,
    ),
    session.SpeakerTurn(SpeakerSpan("a", 1.0, 2.0), 4.0),
    session.Translation(TranslatedText("eins zwei", 1.0, 2.0), 4.0),
    session.Lag(2.5, 4.0),
    session.Failure(BackendError("no"), True, 4.0),
    session.End(audio_time=4.0, stats=STATS, latency=None),
]
DURATIONS = {"seconds", "probability", "stats", "latency"}  # lengths, which no clock moves


def times(value):
    """Return every time in an event, by reflection: all of its floats but durations."""
    if isinstance(value, tuple):
        return [time for part in value for time in times(part)]
    if attrs.has(type(value)):
        fields = attrs.asdict(value, recurse=False).items()
        return [time for name, part in fields if name not in DURATIONS for time in times(part)]
    return [value] if isinstance(value, float) else []


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_time_of_an_event_is_shifted(event):
    """A field that is added to an event, and not to its `shifted`, fails here."""
    shifted = event.shifted(10.0)

    assert times(event)
    assert times(shifted) == [time + 10.0 for time in times(event)]
    assert shifted.shifted(-10.0) == event


def test_every_kind_of_event_is_tested():
    """A new kind of event has to be added above."""
    assert {type(event) for event in EVENTS} == set(session.Event.__args__)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_event_is_plain_data_for_json(event):
    """Its kind and its time come first, and every field of the event has a place."""
    record = event.to_dict()

    assert list(record)[:2] == ["event", "audio_time"]
    assert json.loads(json.dumps(record)) == record
    assert set(flat(record)) >= set(times(event))


def flat(value):
    """Return every number in a record."""
    if isinstance(value, dict):
        return [number for part in value.values() for number in flat(part)]
    if isinstance(value, list):
        return [number for part in value for number in flat(part)]
    return [value] if isinstance(value, float) else []


def test_the_kinds_of_events_have_names_of_their_own():
    """A program that reads records can tell them apart."""
    assert len({event.to_dict()["event"] for event in EVENTS}) == len(EVENTS)
