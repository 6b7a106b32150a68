"""Sessions decode the end of an utterance in the quiet after it, before the silence is certain."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from session_events import kinds, tokens_of

from wlk_conformance.testing import silence
from wlk_live.session import End, Endpoint, Failure, Session
from wlk_live.vad import GateParameters, SilenceGate

CHUNK = 1_600


@pytest.fixture
def follow(open_coded, detector):
    """Return a function that feeds a session in pieces; it returns events and calls by piece."""

    def follow(pieces, *, prepares, fail_at=(), silence_seconds=1.2, commits=()):
        calls = 0

        def count():
            nonlocal calls
            calls += 1

        parameters = GateParameters(silence_seconds=silence_seconds, pre_roll=0.15)
        session = Session(
            open_coded(fail_at, before_call=count),
            gate=SilenceGate(detector, parameters),
            encoding="f32le",
            prepares_flush=prepares,
        )
        answers = []
        for index, piece in enumerate(pieces):
            if index in commits:
                session.commit()
            events = session.feed(piece)
            answers.append((calls, events))
        answers.append((calls, session.finish()))
        return answers

    return follow


def all_events(answers):
    """Return the events of all pieces without the last, which has the counters."""
    return [event for _, events in answers for event in events if not isinstance(event, End)]


@pytest.mark.parametrize("silence_seconds", [0.2, 0.5, 1.2])
def test_a_silence_that_becomes_certain_costs_no_call(follow, talk, silence_seconds):
    """The words of an utterance are published without another call of the engine."""
    pieces = [talk[start : start + CHUNK] for start in range(0, len(talk), CHUNK)]
    answers = follow(pieces, prepares=True, silence_seconds=silence_seconds)

    before, ends = 0, []
    for calls, events in answers:
        ends += [calls - before for event in kinds(events, Endpoint)]
        before = calls
    assert ends == [0, 0]


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # it opens a new session
)
@given(data=st.data())
def test_words_times_and_events_are_those_of_a_session_that_waits(follow, talk, data):
    """Whatever the pieces, the pauses and the commits are."""
    cuts = sorted(data.draw(st.sets(st.integers(1, len(talk) - 1), max_size=40)))
    commits = data.draw(st.sets(st.integers(0, len(cuts)), max_size=5))
    silence_seconds = data.draw(st.sampled_from([0.2, 0.5, 1.2]))
    pieces = np.split(talk, cuts)
    plain, prepared = (
        follow(pieces, prepares=prepares, commits=commits, silence_seconds=silence_seconds)
        for prepares in (False, True)
    )

    assert all_events(prepared) == all_events(plain)


def test_a_commit_in_the_quiet_costs_no_call(follow, speech):
    """What a client ends after a moment of quiet was decoded in that moment."""
    pieces = [speech, silence(0.7), silence(0.1), silence(0.1)]
    answers = follow(pieces, prepares=True, commits={2})

    assert [event.reason for event in kinds(all_events(answers), Endpoint)] == ["commit"]
    assert answers[2][0] == answers[1][0]
    assert tokens_of(answers[2][1])


def test_speech_that_goes_on_at_once_loses_nothing(follow, speech, words):
    """A thousand pauses that end again are work in vain, and no word differs."""
    pieces = []
    for start in range(0, len(speech), CHUNK):
        pieces += [speech[start : start + CHUNK], silence(0.13)]
    plain, prepared = (follow(pieces, prepares=prepares) for prepares in (False, True))

    assert all_events(prepared) == all_events(plain)


def test_a_failing_engine_is_called_again_and_nothing_is_lost(follow, talk, words):
    """A failed preparation is reported and retried like any other call."""
    pieces = [talk[start : start + CHUNK] for start in range(0, len(talk), CHUNK)]
    answers = follow(pieces, prepares=True)
    before = 0
    for calls, events in answers:  # the first call in quiet is one that no hypothesis follows
        if kinds(events, Endpoint):
            break
        before = calls
    failed = follow(pieces, prepares=True, fail_at={before})

    failures = kinds(all_events(failed), Failure)
    assert [failure.is_final for failure in failures] == [False]
    assert tokens_of(all_events(failed)) == tokens_of(all_events(answers))
