"""Recordings as sessions of the scheduler: how they read, and how they report failures."""

from __future__ import annotations

import numpy as np
import pytest

from wlk_core import AudioFormatError
from wlk_live.session import Commit, End, Failure, Session
from wlk_serve.errors import RequestError
from wlk_serve.models.stream import RecordingSession


def steps_of(recording):
    """Return the events of each step."""
    steps = []
    while not recording.is_over:
        steps.append(recording.step())
    return steps


def words_of(events):
    """Return the number of committed words."""
    return sum(len(event.tokens) for event in events if isinstance(event, Commit))


@pytest.fixture
def record(open_coded):
    """Return a function that makes a session of pieces of a recording."""

    def record(pieces, use=lambda _seconds: None):
        return RecordingSession(Session(open_coded()), pieces, use, lambda: True)

    return record


def test_a_step_reads_a_second_if_the_session_waits_for_audio(record, speech):
    """However the decoder cut it, so that a step of a recording is short."""
    read = []
    recording = record(np.array_split(speech, 100), read.append)
    recording.step()

    assert 1.0 <= sum(read) < 1.2


def test_a_recording_gives_every_word_and_its_end(record, speech, words):
    """Each piece is counted once."""
    read = []
    recording = record(np.array_split(speech, 100), read.append)
    events = [event for step in steps_of(recording) for event in step]

    assert words_of(events) == len(words)
    assert isinstance(events[-1], End)
    assert sum(read) == pytest.approx(len(speech) / 16_000)


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (AudioFormatError("damaged at 10 s"), "damaged at 10 s"),
        (OSError("the writer died"), ""),
        (RequestError("too long", status=413, code="too_long"), "too long"),
    ],
    ids=["damage", "writer", "limit"],
)
def test_a_source_that_fails_gives_every_word_before_a_final_failure(
    record, speech, words, failure, message
):
    """The failure comes in place of the End."""

    def failing():
        yield from np.array_split(speech, 7)
        raise failure

    events = [event for step in steps_of(record(failing())) for event in step]

    assert words_of(events) == len(words)
    assert isinstance(events[-1], Failure)
    assert events[-1].is_final
    assert message in str(events[-1].error)
    assert not any(isinstance(event, End) for event in events)


def test_a_limit_that_a_piece_exceeds_ends_the_recording_before_it(record, speech):
    """The piece itself is not transcribed."""
    seconds = []

    def use(length):
        seconds.append(length)
        if sum(seconds) > 5:
            raise RequestError("too long", status=413, code="too_long")

    events = [event for step in steps_of(record(np.array_split(speech, 20), use)) for event in step]

    assert events[-1].audio_time == pytest.approx(sum(seconds[:-1]))
