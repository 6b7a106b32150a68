"""The times of events are moved from the clock of a stream to that of its session."""

from __future__ import annotations

from typing import get_args, get_type_hints

import attrs

from wlk_core import errors, processor, tokens
from wlk_live.session import events
from wlk_serve.sessions.audio import _TIMES

# Fields that are no times of the stream: durations and a probability.
OTHER_NUMBERS = {"Lag.seconds", "ASRToken.probability"}
NAMES = {**vars(errors), **vars(tokens), **vars(processor), **vars(events)}


def number_fields(cls):
    """Return the fields of *cls*, and of the classes in its fields, that are floats."""
    found = {}
    for name, hint in get_type_hints(cls, NAMES).items():
        kinds = {hint, *get_args(hint)}
        if float in kinds:
            found[f"{cls.__name__}.{name}"] = name
        for kind in kinds:
            if attrs.has(kind) and kind not in (processor.StreamStats, events.LatencySummary):
                found |= number_fields(kind)
    return found


def test_every_time_of_an_event_is_moved():
    """A new field with a time that is not moved would be wrong after the first stream."""
    fields = {}
    for event in get_args(events.Event):
        fields |= number_fields(event)

    assert {field for field, name in fields.items() if name not in _TIMES} == OTHER_NUMBERS
    assert {"Commit.audio_time", "ASRToken.start", "SpeakerSpan.end"} <= fields.keys()
