from __future__ import annotations

from session_events import stepped, text_of

from wlk_conformance.testing import partition
from wlk_core.session import Endpoint, Marked


def test_a_mark_is_reported_after_the_text_of_all_audio_before_it(open_session, speech):
    """With the hypothesis and the times of the stream, and without a flush."""
    session = open_session(gated=False)
    session.receive(speech[:40_000])
    session.mark("here")
    session.receive(speech[40_000:])
    events = stepped(session)
    at = next(i for i, event in enumerate(events) if isinstance(event, Marked))
    marked = events[at]

    alone = open_session(gated=False)
    before = alone.feed(speech[:40_000])

    assert "here" == marked.name
    assert text_of(before) == text_of(events[:at]) != ""
    assert 2.0 == marked.processed_up_to  # the last tick of a second
    assert marked.stable_up_to <= marked.processed_up_to
    assert marked.transcript.text
    assert 2.5 == marked.stats.audio_seconds


def test_marks_change_no_text(open_session, speech, text):
    """A mark after every chunk leaves the transcript as it is."""
    session = open_session(gated=False)
    for number, chunk in enumerate(partition(speech, 0.3)):
        session.receive(chunk)
        session.mark(str(number))
    session.end_audio()
    events = stepped(session)

    assert text == text_of(events)
    names = [event.name for event in events if isinstance(event, Marked)]
    assert [str(number) for number in range(len(names))] == names


def test_a_mark_after_a_commit_comes_after_its_endpoint(open_session, speech, text):
    """All of the audio is decoded then, and nothing can change."""
    session = open_session(gated=False)
    session.receive(speech)
    session.commit()
    session.mark("end")
    events = stepped(session)

    assert text == text_of(events)
    assert [Endpoint, Marked] == [type(event) for event in events[-2:]]
    assert len(speech) / 16_000 == events[-1].processed_up_to == events[-1].stable_up_to
    assert "" == events[-1].transcript.text
