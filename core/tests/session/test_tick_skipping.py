"""A session that cannot keep up decodes at the latest tick only, and loses no word."""

from __future__ import annotations

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_conformance.testing import partition
from wlk_conformance.testing.coded_engine import CodedEngine
from wlk_core.online import (
    AlignAttRecognizer,
    AlignedHypothesis,
    AlignedWord,
    LocalAgreementRecognizer,
    OnlineStream,
)
from wlk_core.session import Commit, End, Lag, Session
from wlk_core.streaming import AlignAtt
from wlk_core.vad import SilenceGate

FRAME = 320  # samples of an encoder frame


class Ticking(OnlineStream):
    """A stream of a policy that ticks, over coded audio; `longest` is that of its engine calls."""

    def __init__(self, policy):
        self.longest = 0
        self.engine = CodedEngine()
        rule = AlignAtt(border_frames=8, rewind_frames=25)
        super().__init__(
            partial(AlignAttRecognizer, self.decode, policy=rule, frame_samples=FRAME)
            if policy == "alignatt"
            else partial(LocalAgreementRecognizer, self.transcribe)
        )

    def transcribe(self, audio, *, prompt, language):
        """Transcribe for LocalAgreement."""
        self.longest = max(self.longest, len(audio))
        return self.engine(audio, prompt=prompt, language=language)

    def decode(self, audio, *, context, language, **_):
        """Decode for AlignAtt."""
        answer = self.transcribe(audio, prompt="", language=language)
        aligned = tuple(
            AlignedWord(word=word, frames=(round(word.end * 16_000 - 1) // FRAME,))
            for word in answer.words[len(context) :]
        )
        return AlignedHypothesis(words=aligned, language="en", work=answer.work)


@pytest.fixture(params=["local-agreement", "alignatt"])
def open_ticking(request):
    """Return a function that opens a stream, for each policy that ticks."""
    return partial(Ticking, request.param)


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
    """All audio is decoded at fewer ticks, in calls that the engine can take; lag is reported."""
    talk = np.concatenate(12 * [speech])
    streams = [open_ticking() for _ in range(3)]
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
    frames = [stream.stats.encoder_frames for stream in streams]
    assert frames[0] == frames[1]
    assert frames[2] < frames[0] / 3
    assert streams[2].longest <= 28 * 16_000


@pytest.mark.parametrize("policy", ["local-agreement", "alignatt"])
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
    detector = request.getfixturevalue("detector")
    speech = request.getfixturevalue("speech")
    pause = np.zeros(16_000 * 4, dtype=np.float32)
    talk = np.concatenate((speech, pause, speech))
    chunks, position = [], 0
    while position < len(talk):
        size = max(1, round(lengths[len(chunks) % len(lengths)] * 16_000))
        chunks.append(talk[position : position + size])
        position += size
    expected = run_late(Session(Ticking(policy), gate=SilenceGate(detector)), chunks, every=1)
    session = Session(Ticking(policy), gate=SilenceGate(detector), skip_ticks_after=bound)
    events = run_late(session, chunks, every=every)

    assert text_of(expected) == text_of(events)
