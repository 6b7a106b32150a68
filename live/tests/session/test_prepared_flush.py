"""Sessions decode the end of an utterance in the quiet after it, before the silence is certain."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from session_events import kinds, text_of, tokens_of

from wlk_conformance.testing import silence
from wlk_core import StreamClosed
from wlk_live.session import Commit, End, Endpoint, Failure, HypothesisChange, Marked, Session
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


def final_events(answers):
    """Return the events that later ones cannot change: all but hypotheses."""
    return [event for event in all_events(answers) if not isinstance(event, HypothesisChange)]


@pytest.mark.parametrize(("silence_seconds", "chunk"), [(0.2, 320), (0.5, CHUNK), (1.2, CHUNK)])
def test_a_silence_that_becomes_certain_costs_no_call(follow, talk, silence_seconds, chunk):
    """The words of an utterance are published without another call of the engine."""
    # The pauses between these words use up the work in vain, and then a chunk has to end in the
    # last 0.08 s of the shortest silence.
    pieces = [talk[start : start + chunk] for start in range(0, len(talk), chunk)]
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

    assert final_events(prepared) == final_events(plain)


def test_a_commit_in_the_quiet_costs_no_call(follow, speech):
    """What a client ends after a moment of quiet was decoded in that moment."""
    pieces = [speech, silence(0.7), silence(0.1), silence(0.1)]
    answers = follow(pieces, prepares=True, commits={2})

    assert [event.reason for event in kinds(all_events(answers), Endpoint)] == ["commit"]
    assert answers[2][0] == answers[1][0]
    assert tokens_of(answers[2][1])


def test_the_last_words_are_shown_before_the_silence_is_certain(follow, speech):
    """A client sees them a moment after they were spoken, not when the utterance has ended."""
    pieces = [*np.split(speech[: 5 * CHUNK], 5), *[silence(0.1)] * 12]
    texts = []
    for prepares in (False, True):
        answers = follow(pieces, prepares=prepares)
        shown = [each for _, events in answers[:-4] for each in kinds(events, HypothesisChange)]
        texts.append([each.transcript.text for each in shown])
    words = text_of(all_events(answers))

    assert texts == [[], [words]]


def test_words_shown_in_a_quiet_do_not_vanish_when_speech_goes_on(follow, speech):
    """They stay until the next hypothesis, which has them too."""
    pieces = [speech[:20_000], silence(0.5), *np.split(speech[20_000:84_000], 40)]
    answers = follow(pieces, prepares=True)
    shown = [each.transcript.text for each in kinds(all_events(answers), HypothesisChange)]
    committed = ""
    read = [""]
    for event in all_events(answers):
        if isinstance(event, Commit):
            committed += "".join(token.text for token in event.tokens)
        elif isinstance(event, HypothesisChange):
            read.append(committed + event.transcript.text)

    assert len(shown) > 3
    assert all(after.startswith(before) for before, after in pairwise(read[:-1]))


@pytest.mark.parametrize("pause", [0.01, 0.13, 0.24])
def test_speech_that_goes_on_at_once_loses_nothing(follow, speech, pause):
    """A hundred pauses that end again are work in vain, and no word differs."""
    pieces = []
    for start in range(0, len(speech), CHUNK):
        pieces += [speech[start : start + CHUNK], silence(pause)]
    plain, prepared = (follow(pieces, prepares=prepares) for prepares in (False, True))

    assert final_events(prepared) == final_events(plain)


def test_hundreds_of_pauses_a_minute_cost_little(follow):
    """While speech goes on after each, only two are decoded in vain, and one every 5 s."""
    syllable = np.full(512, 0.1, np.float32)  # a frame of the detector
    pieces = [np.concatenate((syllable, silence(0.096)))] * 240  # half a minute
    plain, prepared = (
        follow(pieces, prepares=prepares, silence_seconds=0.2)[-1][0] for prepares in (False, True)
    )

    assert 2 <= prepared - plain <= 2 + 30 // 5


def test_after_many_pauses_in_vain_the_end_is_still_decoded_in_time(follow, speech):
    """It is decoded when half of the silence has passed, so the flush needs no call."""
    word = speech[: np.flatnonzero(speech[: 5 * CHUNK])[-1] + 1]
    paused = np.concatenate((word, silence(0.26)))
    answers = follow([paused, paused, paused, word, *[silence(0.1)] * 14], prepares=True)
    calls = [calls for calls, _ in answers]

    assert calls[3:10] == [calls[3]] * 7
    assert calls[11:18] == [calls[3] + 1] * 7
    assert [len(kinds(events, Endpoint)) for _, events in answers[13:18]].count(1) == 1


def test_a_mark_in_the_quiet_has_the_words_that_are_shown(open_coded, detector, speech):
    """A client that asks for the text so far gets what it would be if the utterance ended."""
    session = Session(
        open_coded(), gate=SilenceGate(detector), encoding="f32le", prepares_flush=True
    )
    events = session.feed(speech[: 5 * CHUNK]) + session.feed(silence(0.3))
    session.mark("quiet")
    (mark,) = kinds(session.feed(b""), Marked)
    events += session.finish()

    assert mark.transcript.text == text_of(events)
    assert mark.processed_up_to == mark.stats.audio_seconds
    assert kinds(events, HypothesisChange)[0].transcript == mark.transcript


def test_a_mark_does_not_count_the_audio_after_the_prepared_words(open_coded, detector, speech):
    """The model has not consumed the speech that goes on after a quiet."""
    session = Session(
        open_coded(), gate=SilenceGate(detector), encoding="f32le", prepares_flush=True
    )
    marks = []
    for audio in (speech[: 5 * CHUNK], silence(0.3), speech[2 * CHUNK : 4 * CHUNK]):
        session.feed(audio)
        session.mark("")
        marks += kinds(session.feed(b""), Marked)
    _, quiet, spoken = marks

    assert spoken.stats.audio_seconds > quiet.stats.audio_seconds
    assert spoken.processed_up_to == quiet.processed_up_to


def test_noise_as_loud_as_speech_prepares_nothing(follow, speech):
    """While the detector finds no quiet, every call is one that a session makes anyway."""
    noisy = np.where(speech == 0, np.float32(1e-3), speech)
    pieces = np.split(noisy, range(CHUNK, len(noisy), CHUNK))
    plain, prepared = (follow(pieces, prepares=prepares) for prepares in (False, True))

    assert all_events(prepared) == all_events(plain)
    assert [calls for calls, _ in prepared] == [calls for calls, _ in plain]


@pytest.fixture
def fail_in_quiet(follow, talk):
    """Return a function that repeats a session whose first calls in a quiet fail."""
    pieces = [talk[start : start + CHUNK] for start in range(0, len(talk), CHUNK)]
    answers = follow(pieces, prepares=True)
    before = 0
    for calls, events in answers:  # no other call of the first quiet follows the prepared one
        if kinds(events, Endpoint):
            break
        before = calls

    def fail_in_quiet(count):
        return answers, follow(pieces, prepares=True, fail_at=range(before, before + count))

    return fail_in_quiet


def test_a_failure_of_work_that_nobody_requested_is_no_event(fail_in_quiet, caplog):
    """It is logged, and the flush decodes the words."""
    answers, failed = fail_in_quiet(1)

    assert final_events(failed) == final_events(answers)
    assert "could not be decoded in advance" in caplog.text


def test_a_failure_that_persists_is_reported_by_the_flush(fail_in_quiet):
    """It is retried like that of any other call, and nothing is lost."""
    answers, failed = fail_in_quiet(3)

    assert [event.is_final for event in kinds(all_events(failed), Failure)] == [False, False]
    assert tokens_of(all_events(failed)) == tokens_of(all_events(answers))


@pytest.fixture
def interrupt(open_coded, detector, speech):
    """Return a function that runs a session in which something happens during the preparation."""

    def interrupt(action):
        calls = []
        processor = open_coded(before_call=lambda: calls.append(None) or act())
        session = Session(
            processor, gate=SilenceGate(detector), encoding="f32le", prepares_flush=True
        )

        def act():
            if session.audio_time > spoken:
                action(session, processor)

        last = np.flatnonzero(speech)[-1] + 1
        spoken = last / 16_000
        events = session.feed(speech[:last])
        before = len(calls)
        events += session.feed(silence(0.3))
        assert len(calls) == before + 1
        return session, events

    return interrupt


def test_a_commit_during_the_preparation_is_answered_by_it(interrupt, speech, words):
    """It was requested while the engine ran, and needs no call of its own."""
    session, events = interrupt(lambda session, _: session.commit())

    assert [event.reason for event in kinds(events, Endpoint)] == ["commit"]
    assert len(tokens_of(events)) == len(words)
    assert not tokens_of(session.finish())


def test_a_client_that_leaves_during_the_preparation_gets_no_word(interrupt):
    """The stream was closed by its owner: the session ends at the next call."""
    session, events = interrupt(lambda _, processor: processor.close())

    assert not kinds(events, Failure, Endpoint)
    with pytest.raises(StreamClosed):
        session.finish()
    assert session.is_over
