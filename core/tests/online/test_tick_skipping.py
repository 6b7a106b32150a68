"""A session that cannot keep up decodes at the latest tick only, and loses no word."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_conformance.testing import partition, silence
from wlk_conformance.testing.coded_audio import LoudIsSpeech
from wlk_live.session import Commit, End, Lag, Session
from wlk_live.vad import SilenceGate


def tokens_of(events):
    """Return the committed tokens."""
    return [token for event in events if isinstance(event, Commit) for token in event.tokens]


def text_of(events):
    """Return the committed text."""
    return "".join(token.text for token in tokens_of(events)).strip()


def run_late(session, chunks, *, every):
    """Step the session only after *every* chunks; return the events."""
    events = []
    for number, chunk in enumerate(chunks, 1):
        session.receive(chunk)
        while number % every == 0 and session.has_work:
            events += session.step()
    session.end_audio()
    while session.has_work:
        events += session.step()
    return events


@pytest.mark.parametrize("policy", ["local-agreement", "alignatt"])
def test_no_word_is_lost_and_far_less_is_decoded(policy, coded_engine, speech):
    """All audio is decoded at fewer ticks, in calls of accepted length; lag is reported."""
    talk = np.concatenate(8 * [speech.audio])
    engines = [coded_engine() for _ in range(3)]
    streams = [engine.stream(policy=policy) for engine in engines]
    options = {"skip_ticks_after": 4.0, "max_backlog_seconds": 150.0}
    chunks = list(partition(talk, 0.5))
    expected = run_late(Session(streams[0]), chunks, every=1)
    punctual = run_late(Session(streams[1], **options), chunks, every=1)
    late = run_late(Session(streams[2], **options), chunks, every=len(chunks))
    lags = [event.seconds for event in late if isinstance(event, Lag)]

    assert tokens_of(expected) == tokens_of(punctual)
    assert len(expected) == len(punctual)
    assert text_of(expected) == text_of(late)
    assert 2 == len(lags)
    assert 0.0 == lags[-1]
    assert isinstance(late[-1], End)
    assert engines[0].calls == engines[1].calls
    assert engines[2].calls < engines[0].calls / 3
    assert engines[2].longest <= 28 * 16_000


@pytest.mark.parametrize("policy", ["local-agreement", "alignatt"])
@given(
    every=st.integers(1, 120),
    lengths=st.lists(st.floats(0.01, 3.0), min_size=1, max_size=8),
    bound=st.floats(0.0, 20.0),
)
@settings(max_examples=8, deadline=None)
def test_the_words_stay_wherever_the_session_falls_back_and_catches_up(
    policy, every, lengths, bound, *, coded_engine, speech
):
    """This holds for any chunks, pace and bound; a gate puts pauses between the utterances."""
    talk = np.concatenate((speech.audio, silence(4.0), speech.audio))

    def open_session(**options):
        gate = SilenceGate(LoudIsSpeech())
        return Session(coded_engine().stream(policy=policy), gate=gate, **options)

    chunks, position = [], 0
    while position < len(talk):
        size = max(1, round(lengths[len(chunks) % len(lengths)] * 16_000))
        chunks.append(talk[position : position + size])
        position += size
    expected = run_late(open_session(), chunks, every=1)
    events = run_late(open_session(skip_ticks_after=bound), chunks, every=every)

    assert text_of(expected) == text_of(events)
