"""A session: audio in, events out, step by step."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest
from session_events import kinds, stepped, tokens_of

from wlk_conformance.testing import partition
from wlk_core import (
    ASRToken,
    AudioFormatError,
    BackendError,
    ClockError,
    ConcurrentCallError,
    OptionError,
    StreamBroken,
    StreamClosed,
)
from wlk_live import SessionOverloaded
from wlk_live.session import (
    AudioGap,
    End,
    Endpoint,
    Failure,
    HypothesisChange,
    Lag,
    Session,
    SilenceSpan,
    SpeechStarted,
)
from wlk_live.session.session import Pending
from wlk_live.vad import SilenceGate


def run(session, audio, chunk_seconds=0.5):
    """Feed *audio* in chunks and finish; return the events."""
    events = []
    for chunk in partition(audio, chunk_seconds):
        events += session.feed(chunk)
    return events + session.finish()


def test_a_session_reports_speech_words_endpoints_and_pauses_in_their_order(
    open_session, talk, words
):
    """Speech starts, its words come and it ends; then comes the pause, and the End is last."""
    events = run(open_session(), talk)
    outline = [event for event in events if not isinstance(event, HypothesisChange)]
    names = [type(event).__name__ for event in outline]
    deduplicated = [names[0], *(b for a, b in pairwise(names) if a != b)]
    first_word = 3.0 + 10.08 + 7.0 + words[0].start  # of the second utterance

    assert deduplicated == [
        "SilenceSpan", "SpeechStarted", "Commit", "Endpoint",
        "SilenceSpan", "SpeechStarted", "Commit", "Endpoint",
        "SilenceSpan", "End",
    ]  # fmt: skip
    assert len(tokens_of(events)) == 2 * len(words)
    starts = [event.start for event in kinds(events, SpeechStarted)]
    ends = [event.time for event in kinds(events, Endpoint)]
    assert starts == [span.silence.end for span in kinds(events, SilenceSpan)[:2]]
    assert ends == [span.silence.start for span in kinds(events, SilenceSpan)[1:]]
    assert [event.reason for event in kinds(events, Endpoint)] == ["silence", "silence"]
    assert first_word - 0.45 < starts[1] <= first_word - 0.4  # the gate's pre-roll


def test_a_session_ends_with_its_figures(open_session, speech, words):
    """Each change of the hypothesis is reported once, and the End has counters and latency."""
    events = run(open_session(gated=False), speech)
    texts = [event.transcript.text for event in kinds(events, HypothesisChange)]
    end = events[-1]

    assert all(text != following for text, following in pairwise(texts))
    assert texts[-1] == ""
    assert end.latency.words == len(words)
    assert 0 <= end.latency.median <= end.latency.p90
    assert end.stats.encoder_frames > 0
    assert end.stats.state_bytes > 0


@given(
    cuts=st.lists(st.integers(1, 100_000), min_size=1, max_size=15),
    is_bytes=st.booleans(),
)
@settings(max_examples=15)
def test_the_cut_of_the_audio_changes_no_word_and_no_boundary(cuts, is_bytes, request):
    """Chunks of any length, even cut inside a sample, give the same words and endpoints."""
    open_session = request.getfixturevalue("open_session")
    talk = request.getfixturevalue("talk")
    expected = run(open_session(), talk)
    session = open_session()
    source = talk.astype("<f4").tobytes() if is_bytes else talk
    events, position = [], 0
    for cut in cuts:
        events += session.feed(source[position : position + cut])
        position += cut
    events += session.feed(source[position:]) + session.finish()

    assert tokens_of(events) == tokens_of(expected)
    for kind in (SpeechStarted, Endpoint, SilenceSpan):
        ours = [attributes(event) for event in kinds(events, kind)]
        assert ours == [attributes(event) for event in kinds(expected, kind)]


def attributes(event):
    """Return what an event reports, without its audio time."""
    match event:
        case SpeechStarted(start):
            return start
        case Endpoint(time, reason):
            return time, reason
        case SilenceSpan(pause):
            return pause


def test_a_step_makes_at_most_one_call_of_the_processor(open_session, talk):
    """Each call decodes a few ticks of one second, so a scheduler can switch between calls."""
    expected = run(open_session(), talk)
    session = open_session()
    session.receive(talk)
    session.end_audio()
    received, frames = [], []
    while session.has_work:
        before = session._worker._processor.stats.encoder_frames or 0
        received += session.step()
        frames.append((session._worker._processor.stats.encoder_frames or 0) - before)

    assert tokens_of(received) == tokens_of(expected)
    assert len(frames) > 8
    assert max(frames) < sum(frames) / 3
    assert session.is_over


def test_a_chunk_with_one_call_is_one_step(open_session, speech):
    """The hypothesis comes in the same step as its words, and no idle step remains."""
    session = open_session(gated=False)
    for chunk in partition(speech, 0.5):
        session.receive(chunk)
        session.step()

        assert not session.has_work


def test_a_step_takes_one_piece_of_a_pause(open_session):
    """Hours without speech would otherwise block other sessions, although no call is made."""
    session = open_session()
    for _ in range(3):
        session.receive(bytes(6400))  # a tenth of a second
    waiting = []
    while session.has_work:
        session.step()
        waiting.append(round(session.backlog_seconds, 1))

    assert waiting == [0.2, 0.1, 0.0]


def test_a_session_says_what_its_next_step_is_about(open_session):
    """How much audio came and waits, and whether a client waits for the end of an utterance."""
    session = open_session(gated=False)
    pending = [session.pending]
    session.receive(bytes(6400))  # a tenth of a second
    pending.append(session.pending)
    session.skip(2.0)
    session.commit()
    pending.append(session.pending)
    while session.has_work:
        session.step()

    assert [*pending, session.pending] == [
        None,
        Pending(audio_time=0.1, backlog_seconds=0.1),
        Pending(audio_time=2.1, backlog_seconds=0.1, is_ending_utterance=True),
        None,
    ]


def test_a_fault_that_passes_is_an_event_and_loses_no_word(open_session, talk):
    """The next step retries the call."""
    expected = run(open_session(), talk)
    events = run(open_session(fail_at={2, 5, 6}), talk)
    failures = kinds(events, Failure)

    assert len(failures) == 3
    assert not any(failure.is_final for failure in failures)
    assert all("failed on request" in str(failure.error) for failure in failures)
    assert tokens_of(events) == tokens_of(expected)


def test_each_attempt_of_a_call_waits_longer_and_a_success_ends_the_waiting(open_session, speech):
    """A session has no clock: it says how long to wait, and whoever steps it may do so."""
    session = open_session(fail_at={2, 3, 4}, gated=False)
    session.receive(speech)
    delays = []
    while session.has_work:
        session.step()
        if session.retry_delay or delays[-1:] == [0.4]:
            delays.append(session.retry_delay)

    assert delays == [0.1, 0.2, 0.4, 0.0]


def test_a_session_that_failed_for_good_waits_for_nothing(open_session, speech):
    """It has no next step."""
    session = open_session(fail_at=range(1, 9), gated=False)
    session.feed(speech)

    assert session.is_over
    assert session.retry_delay == 0.0


def test_a_lasting_fault_ends_the_session_after_everything_committed(open_session, speech, words):
    """The words before it, a final failure and the End are reported, then nothing more."""
    session = open_session(fail_at=range(6, 99), gated=False)
    events = session.feed(speech)

    assert isinstance(events[-2], Failure)
    assert events[-2].is_final
    assert isinstance(events[-2].error, StreamBroken)
    assert isinstance(events[-1], End)
    text = "".join(token.text for token in tokens_of(events))
    assert text
    assert "".join(word.text for word in words).strip().startswith(text)
    assert session.is_over
    assert not session.has_work
    assert session.finish() == []
    with pytest.raises(StreamClosed, match="has ended"):
        session.receive(speech)


@pytest.mark.parametrize("options", [{"retryable": False}, {"is_exhausted": True}], ids=str)
def test_an_error_that_no_retry_cures_loses_no_committed_word(open_session, speech, options):
    """What earlier steps of the failed flush committed comes before the failure."""
    session = open_session(gated=False)
    session.receive(speech[:80_000])
    session.end_audio()
    stream = session._worker._processor
    tokens = ASRToken(0.1, 0.4, " one"), ASRToken(0.5, 0.9, " two")

    def failing(*_arguments, **_options):
        raise BackendError("no key", committed=tokens, **options)

    stream.process_iter = stream.finish = failing
    events = stepped(session)

    assert tokens_of(events) == list(tokens)
    assert [type(event) for event in events[-2:]] == [Failure, End]


def test_a_slow_session_reports_its_lag_once_and_refuses_what_it_cannot_keep(open_session, talk):
    """Lag is an event; exceeding the backlog's bound is an error that loses nothing."""
    session = open_session(max_backlog_seconds=8.0)
    inserted = 0
    with pytest.raises(SessionOverloaded, match=r"bound is 8\.0 s"):
        for chunk in partition(talk, 1.0):
            session.receive(chunk)
            inserted += len(chunk)
    first = stepped(session)
    rest = session.feed(talk[inserted:]) + session.finish()

    assert inserted == 8 * 16_000
    assert [event.seconds for event in kinds(first, Lag)] == [7.0, 0.0]
    assert kinds(rest, Lag) == []
    assert tokens_of(first + rest) == tokens_of(run(open_session(), talk))


@pytest.mark.parametrize("gated", [True, False], ids=["gate", "no gate"])
@pytest.mark.parametrize("seconds", [0.5, 30.0, 8 * 3600.0])
def test_audio_that_was_not_captured_is_a_gap_of_the_clock(
    open_session, speech, words, gated, seconds
):
    """The utterance ends, no word is lost, and the words after the gap come at their times."""
    session = open_session(gated=gated)
    events = session.feed(speech)
    session.skip(seconds)
    events += stepped(session)
    events += session.feed(speech) + session.finish()
    before = len(speech) / 16_000
    starts = [word.start for word in words]
    expected = starts + [before + seconds + start for start in starts]

    assert [token.start for token in tokens_of(events)] == pytest.approx(expected)
    gaps = [(gap.start, gap.end) for gap in kinds(events, AudioGap)]
    assert gaps == [(before, before + seconds)]
    assert events[-1].audio_time == pytest.approx(2 * before + seconds)
    assert kinds(events, Endpoint)[0].reason == "silence"


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), 1e300])
def test_a_gap_has_a_length(open_session, seconds):
    """A gap of negative, undefined or impossible length is refused and changes nothing."""
    session = open_session()
    with pytest.raises(ClockError, match="expected a gap"):
        session.skip(seconds)

    assert session.audio_time == 0


def test_a_gap_of_no_length_is_no_event(open_session, speech):
    """It ends no utterance, and after the end of the audio it is refused like any other."""
    session = open_session(gated=False)
    events = session.feed(speech)
    session.skip(0)
    events += session.finish()

    assert kinds(events, AudioGap) == []
    assert len(kinds(events, Endpoint)) == 1
    with pytest.raises(StreamClosed, match="has ended"):
        session.skip(0)


def test_one_thread_at_a_time_steps_a_session(open_session, talk):
    """A concurrent step is refused and changes nothing."""
    expected = run(open_session(), talk)
    session = open_session()
    refused = []
    step_processor = session._worker._processor.process_iter

    def nested(*arguments, **options):
        with pytest.raises(ConcurrentCallError, match="one thread at a time"):
            session.step()
        refused.append(1)
        return step_processor(*arguments, **options)

    session._worker._processor.process_iter = nested
    events = run(session, talk)

    assert refused
    assert tokens_of(events) == tokens_of(expected)


def test_a_feed_that_raises_keeps_the_events_before_it(open_session, speech):
    """They are returned by `fail`, which ends the session with the error."""
    session = open_session(gated=False)
    calls = []
    step_processor = session._worker._processor.process_iter

    def closing(*arguments, **options):
        calls.append(1)
        if len(calls) > 2:
            raise StreamClosed("closed by its owner")
        return step_processor(*arguments, **options)

    session._worker._processor.process_iter = closing
    with pytest.raises(StreamClosed) as caught:
        session.feed(speech)
    events = session.fail(caught.value)

    assert tokens_of(events)
    assert isinstance(events[-1], End)


def test_a_gate_is_for_one_session(open_coded, detector, speech):
    """In a second session its times would count from the beginning of the first."""
    gate = SilenceGate(detector)
    run(Session(open_coded(), gate=gate, encoding="f32le"), speech)

    with pytest.raises(OptionError, match="expected a new gate"):
        Session(open_coded(), gate=gate)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"max_backlog_seconds": "x"}, OptionError, "_seconds` in seconds, 0 or more, got 'x'"),
        ({"max_backlog_seconds": float("nan")}, OptionError, "max_backlog_seconds"),
        ({"catch_up_after": None, "max_backlog_seconds": None}, OptionError, "max_backlog"),
        ({"rate": 7_000}, AudioFormatError, "sample rate"),
    ],
)
def test_a_wrong_argument_is_refused_when_the_session_is_opened(
    open_session, options, error, match
):
    """The constructor raises, not the first feed()."""
    with pytest.raises(error, match=match):
        open_session(**options)
