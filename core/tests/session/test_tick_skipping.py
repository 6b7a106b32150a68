"""A session that cannot keep up decodes at the latest tick only, and loses no word."""

from __future__ import annotations

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_conformance.testing import partition
from wlk_core.online import AlignAttRecognizer, AlignedHypothesis, AlignedWord, OnlineStream
from wlk_core.session import Commit, End, Lag, Session
from wlk_core.streaming import AlignAtt
from wlk_core.vad import SilenceGate

FRAME = 320  # samples of an encoder frame


@pytest.fixture
def open_alignatt(open_stream):
    """Return a function that opens an AlignAtt stream over the same coded engine."""

    def open_alignatt():
        engine = open_stream()._recognizer._transcribe

        def decode(audio, *, context, language, **_):
            words = engine(audio, prompt="", language=language).words
            aligned = tuple(
                AlignedWord(word=word, frames=(round(word.end * 16_000 - 1) // FRAME,))
                for word in words[len(context) :]
            )
            return AlignedHypothesis(words=aligned, language="en")

        policy = AlignAtt(border_frames=8, rewind_frames=25)
        return OnlineStream(partial(AlignAttRecognizer, decode, policy=policy, frame_samples=FRAME))

    return open_alignatt


@pytest.fixture(params=["open_stream", "open_alignatt"])
def open_ticking(request):
    """Return a function that opens a stream, for each policy that ticks."""
    return request.getfixturevalue(request.param)


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


def test_no_word_is_lost_and_far_less_is_decoded(open_ticking, speech):
    """All audio is decoded, at fewer ticks."""
    talk = np.concatenate(8 * [speech])
    streams = open_ticking(), open_ticking()
    chunks = list(partition(talk, 0.5))
    expected = run_late(Session(streams[0]), chunks, every=len(chunks))
    events = run_late(Session(streams[1], skip_ticks_after=4.0), chunks, every=len(chunks))
    decoded = [stream._recognizer._window.processed for stream in streams]
    calls = [stream._recognizer.work.encoder_frames for stream in streams]

    assert text_of(expected) == text_of(events)
    assert decoded[0] == decoded[1]
    if calls[0]:
        assert calls[1] < calls[0] / 3
    assert isinstance(events[-1], End)


@pytest.mark.parametrize("policy", ["open_stream", "open_alignatt"])
@given(
    every=st.integers(1, 120),
    lengths=st.lists(st.floats(0.01, 3.0), min_size=1, max_size=8),
    bound=st.floats(0.0, 20.0),
)
@settings(max_examples=8, deadline=None)
def test_the_words_stay_wherever_the_session_falls_back_and_catches_up(
    policy, every, lengths, bound, request
):
    """Any chunks, any pace, any bound; with a gate, so that pauses lie between the utterances."""
    open_ticking = request.getfixturevalue(policy)
    detector = request.getfixturevalue("detector")
    speech = request.getfixturevalue("speech")
    pause = np.zeros(16_000 * 4, dtype=np.float32)
    talk = np.concatenate((speech, pause, speech))
    chunks, position = [], 0
    while position < len(talk):
        size = max(1, round(lengths[len(chunks) % len(lengths)] * 16_000))
        chunks.append(talk[position : position + size])
        position += size
    expected = run_late(Session(open_ticking(), gate=SilenceGate(detector)), chunks, every=1)
    session = Session(open_ticking(), gate=SilenceGate(detector), skip_ticks_after=bound)
    events = run_late(session, chunks, every=every)

    assert text_of(expected) == text_of(events)


def test_a_session_that_keeps_up_skips_no_tick(open_ticking, speech):
    """Its events are those of a session without the option."""
    chunks = list(partition(speech, 0.5))
    expected = run_late(Session(open_ticking()), chunks, every=1)
    events = run_late(Session(open_ticking(), skip_ticks_after=4.0), chunks, every=1)

    assert tokens_of(expected) == tokens_of(events)
    assert len(expected) == len(events)


def test_the_engine_never_gets_more_audio_than_it_can_take(open_stream, speech):
    """Two minutes wait; no call has more than 28 s."""
    stream = open_stream()
    longest = []
    engine = stream._recognizer._transcribe

    def transcribe(audio, **options):
        longest.append(len(audio) / 16_000)
        return engine(audio, **options)

    stream._recognizer._transcribe = transcribe
    session = Session(stream, skip_ticks_after=4.0, max_backlog_seconds=150.0)
    run_late(session, [speech] * 12, every=12)

    assert 12.0 < max(longest) <= 28.0


def test_lag_is_reported_before_ticks_are_skipped(open_stream, speech):
    """The consumer learns of it, and of the end of it."""
    session = Session(open_stream(), skip_ticks_after=4.0)
    events = run_late(session, partition(speech, 0.5), every=20)
    lags = [event.seconds for event in events if isinstance(event, Lag)]

    assert lags
    assert lags[-1] == 0.0
