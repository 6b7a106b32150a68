"""A session that cannot keep up decodes at the latest tick only, and loses no word."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from session_events import kinds, text_of, tokens_of

from wlk_conformance.scripted import ScriptedBackend
from wlk_conformance.testing import partition, silence
from wlk_conformance.testing.coded_audio import LoudIsSpeech
from wlk_live.session import End, Lag, Session
from wlk_live.vad import SilenceGate


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
def test_no_word_is_lost_and_far_less_is_decoded(policy, speech):
    """All audio is decoded, at fewer ticks; a session that keeps up skips none; lag is reported."""
    talk = np.concatenate(8 * [speech])
    chunks = list(partition(talk, 0.5))
    backends = [ScriptedBackend() for _ in range(3)]
    streams = [backend.create_processor(policy=policy) for backend in backends]
    options = {"catch_up_after": 4.0, "max_backlog_seconds": 150.0}

    expected = run_late(Session(streams[0]), chunks, every=1)
    punctual = run_late(Session(streams[1], **options), chunks, every=1)
    late = run_late(Session(streams[2], **options), chunks, every=len(chunks))
    lags = [event.seconds for event in kinds(late, Lag)]
    calls = [backend.engine_calls.count for backend in backends]

    assert tokens_of(punctual) == tokens_of(expected)
    assert len(punctual) == len(expected)
    assert text_of(late) == text_of(expected)
    assert len(lags) == 2
    assert lags[-1] == 0.0
    assert isinstance(late[-1], End)
    assert calls[1] == calls[0]
    assert calls[2] < calls[0] / 3


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["local-agreement", "alignatt"])
@given(
    every=st.integers(1, 120),
    lengths=st.lists(st.floats(0.01, 3.0), min_size=1, max_size=8),
    bound=st.floats(0.0, 20.0),
)
@settings(max_examples=8)
def test_the_words_stay_wherever_the_session_falls_back_and_catches_up(
    policy, every, lengths, bound, *, coded, script
):
    """This holds for any chunks, pace and bound; a gate puts pauses between the utterances."""
    speech = coded.encode(script, cells=126)
    talk = np.concatenate((speech, silence(4.0), speech))

    def open_session(**options):
        stream = ScriptedBackend().create_processor(policy=policy)
        return Session(stream, gate=SilenceGate(LoudIsSpeech()), **options)

    chunks, position = [], 0
    while position < len(talk):
        size = max(1, round(lengths[len(chunks) % len(lengths)] * 16_000))
        chunks.append(talk[position : position + size])
        position += size
    expected = run_late(open_session(), chunks, every=1)
    events = run_late(open_session(catch_up_after=bound), chunks, every=every)

    assert text_of(events) == text_of(expected)
