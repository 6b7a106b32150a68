"""Commits and marks by the caller, with and without voice activity detection."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from session_events import kinds, stepped, text_of, tokens_of

from wlk_conformance.testing import partition, silence
from wlk_live.session import Commit, End, Endpoint, Marked, SilenceSpan, SpeechStarted


def committed(session):
    """Commit and return the events of the following steps."""
    session.commit()
    return session.feed(b"")


@pytest.mark.parametrize("gated", [True, False], ids=["gate", "no gate"])
def test_a_commit_ends_the_utterance_with_all_audio_received(open_session, speech, words, gated):
    """Every word before it is committed at once; with a gate, a long quiet is not part of it."""
    session = open_session(gated=gated)
    assert committed(session) == [Endpoint(0.0, "commit", 0.0)]  # even without audio
    events = session.feed(speech) + committed(session)
    before = tokens_of(events)
    events += session.feed(speech) + session.finish()

    assert len(before) == len(words)
    assert len(tokens_of(events)) == 2 * len(words)
    reasons = [(event.reason, event.time) for event in kinds(events, Endpoint)]
    total = len(speech) / 16_000
    assert reasons[0] == ("commit", pytest.approx(words[-1].end + 0.1) if gated else total)
    assert reasons[-1][0] == "end"
    assert [token.start >= total for token in tokens_of(events)[len(words) :]] == [True] * len(
        words
    )


@pytest.mark.parametrize("gated", [True, False], ids=["gate", "no gate"])
def test_each_commit_has_an_endpoint_before_any_is_decoded(open_session, gated):
    """Even a commit right after another, or after too little audio for a sample at 16 kHz."""
    session = open_session(gated=gated, encoding="s16le", rate=24_000)
    session.receive(bytes(48_000))
    session.commit()
    session.commit()
    session.receive(bytes(2))
    session.commit()
    session.receive(bytes(48_000))
    session.commit()
    events = session.feed(b"")

    assert [event.reason for event in kinds(events, Endpoint)] == 4 * ["commit"]


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.3, 0.7, 1.1, 3.0])
def test_quiet_audio_after_a_commit_is_no_utterance(open_session, speech, words, seconds):
    """The rest of the pause neither starts nor ends speech."""
    session = open_session()
    events = session.feed(np.concatenate([speech, silence(seconds)]))
    events += committed(session)
    after = session.feed(silence(5.0)) + session.finish()

    assert len(kinds(events, SpeechStarted)) == 1
    assert kinds(after, SpeechStarted, Endpoint, Commit) == []
    assert len(tokens_of(events)) == len(words)


@pytest.mark.parametrize("seconds", [0.05, 0.3, 0.5, 0.7, 2.0])
def test_a_commit_before_the_first_word_begins_no_speech(open_session, speech, words, seconds):
    """The commit has one endpoint; the words after it form an utterance of their own."""
    session = open_session()
    before = session.feed(silence(seconds)) + committed(session)
    after = session.feed(speech) + session.feed(silence(3.0)) + session.finish()

    assert kinds(before, SpeechStarted) == []
    assert [event.reason for event in kinds(before, Endpoint)] == ["commit"]
    assert len(kinds(after, SpeechStarted)) == 1
    assert [event.reason for event in kinds(after, Endpoint)] == ["silence"]
    assert len(tokens_of(after)) == len(words)


def test_speech_that_goes_on_after_a_commit_is_the_next_utterance(open_session, speech, words):
    """The next utterance starts at the commit, because no silence separates them."""
    session = open_session()
    middle = 5 * 16_000
    events = session.feed(speech[:middle]) + committed(session)
    events += session.feed(speech[middle:]) + session.feed(silence(3.0)) + session.finish()
    starts = [event.start for event in kinds(events, SpeechStarted)]

    assert starts == [0.0, 5.0]
    assert [event.reason for event in kinds(events, Endpoint)] == ["commit", "silence"]
    assert len({token.start for token in tokens_of(events)}) == len(words)


@given(
    parts=st.lists(
        st.tuples(st.sampled_from(["speech", "quiet", "commit"]), st.floats(0.01, 2.0)),
        max_size=10,
    )
)
@settings(max_examples=40)
def test_speech_and_endpoints_alternate_whatever_the_caller_commits(parts, request):
    """Each start of speech is followed by one endpoint; without speech only a commit has one."""
    session = request.getfixturevalue("open_session")()
    speech = request.getfixturevalue("speech")
    events, commits = [], 0
    for kind, seconds in parts:
        audio = (speech if kind == "speech" else silence(2.0))[: round(seconds * 16_000)]
        events += committed(session) if kind == "commit" else session.feed(audio)
        commits += kind == "commit"
    events += session.finish()
    is_speaking = False
    for event in kinds(events, SpeechStarted, Endpoint):
        if isinstance(event, SpeechStarted):
            assert not is_speaking
        else:
            assert is_speaking or event.reason == "commit"
        is_speaking = isinstance(event, SpeechStarted)

    assert not is_speaking
    reasons = [event.reason for event in kinds(events, Endpoint)]
    assert reasons.count("commit") == commits
    assert isinstance(events[-1], End)
    assert all(span.silence.end <= events[-1].audio_time for span in kinds(events, SilenceSpan))


def test_a_mark_is_reported_after_the_text_of_all_audio_before_it(open_session, speech):
    """The mark carries the hypothesis and the stream's times, and does not flush."""
    session = open_session(gated=False)
    session.receive(speech[:40_000])
    session.mark("here")
    session.receive(speech[40_000:])
    events = stepped(session)
    at = next(i for i, event in enumerate(events) if isinstance(event, Marked))
    marked = events[at]

    alone = open_session(gated=False)
    before = alone.feed(speech[:40_000])

    assert marked.name == "here"
    assert text_of(before) == text_of(events[:at]) != ""
    assert marked.processed_up_to == 2.0  # the last tick; there is one each second
    assert marked.stable_up_to <= marked.processed_up_to
    assert marked.transcript.text
    assert marked.stats.audio_seconds == 2.5


def test_marks_change_no_text(open_session, speech, text):
    """A mark after every chunk does not change the transcript."""
    session = open_session(gated=False)
    for number, chunk in enumerate(partition(speech, 0.3)):
        session.receive(chunk)
        session.mark(str(number))
    session.end_audio()
    events = stepped(session)

    assert text_of(events) == text
    names = [event.name for event in events if isinstance(event, Marked)]
    assert names == [str(number) for number in range(len(names))]


def test_a_mark_after_a_commit_comes_after_its_endpoint(open_session, speech, text):
    """By then all audio is decoded and the hypothesis is empty."""
    session = open_session(gated=False)
    session.receive(speech)
    session.commit()
    session.mark("end")
    events = stepped(session)

    assert text_of(events) == text
    assert [type(event) for event in events[-2:]] == [Endpoint, Marked]
    assert len(speech) / 16_000 == events[-1].processed_up_to == events[-1].stable_up_to
    assert events[-1].transcript.text == ""
