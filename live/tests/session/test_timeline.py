"""Arrange the events of a session into lines of text and pauses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wlk_core.tokens import ASRToken, Silence, SpeakerSpan, TranslatedText
from wlk_live.session import Commit, SilenceSpan, SpeakerTurn, Translation
from wlk_live.session.timeline import TextLine, Timeline


def word(start, text=" one", length=0.3, speaker=None):
    """Return a token."""
    return ASRToken(start, start + length, text, speaker=speaker)


def commit(*tokens, at=99.0):
    """Return a commit."""
    return Commit(tokens, at)


def turn(speaker, start, end):
    """Return a speaker turn."""
    return SpeakerTurn(SpeakerSpan(speaker, start, end), 99.0)


def translation(text, start, end):
    """Return a translation."""
    return Translation(TranslatedText(text, start, end, "de"), 99.0)


def timeline_of(*events):
    """Return a timeline of *events*."""
    timeline = Timeline()
    for event in events:
        timeline.add(event)
    return timeline


def outline(timeline):
    """Return the lines as short tuples."""
    return [
        (line.text, line.speaker, line.translation)
        if isinstance(line, TextLine)
        else (round(line.start, 3), round(line.end, 3))
        for line in timeline.lines
    ]


def test_a_pause_is_a_line_between_two_lines_of_text():
    """Text and pauses are lines in the order of their times."""
    pause = SilenceSpan(Silence(1.0, 5.0), 5.0)
    timeline = timeline_of(commit(word(0.5)), pause, commit(word(5.2, " two")))

    assert outline(timeline) == [("one", None, None), (1.0, 5.0), ("two", None, None)]


def test_pauses_that_touch_are_one():
    """A pause that was reported in two parts is one line."""
    parts = [SilenceSpan(Silence(1.0, 2.0), 2.0), SilenceSpan(Silence(2.0, 4.5), 4.5)]

    assert outline(timeline_of(*parts)) == [(1.0, 4.5)]


def test_late_speakers_label_the_words_that_are_there():
    """Every word gets the speaker that overlaps it longest, and none is lost or doubled."""
    words = [word(t / 2, f" w{t}") for t in range(8)]
    timeline = timeline_of(commit(*words))
    timeline.add(turn("anna", 0.0, 2.1))
    timeline.add(turn("bert", 2.05, 4.0))

    assert outline(timeline) == [
        ("w0 w1 w2 w3 w4"[:11], "anna", None),
        ("w4 w5 w6 w7", "bert", None),
    ]
    assert tuple(token.text for line in timeline.lines for token in line.tokens) == tuple(
        w.text for w in words
    )


def test_a_word_just_before_a_turn_belongs_to_it():
    """Engines place the first word of a turn early; a word far from any turn has no speaker."""
    timeline = timeline_of(
        commit(word(0.0), word(3.0, length=0.1), word(5.0), word(9.0)),
        turn("anna", 0.0, 2.8),
        turn("bert", 3.3, 6.0),
    )

    assert [token.speaker for token in timeline.tokens] == ["anna", "bert", "bert", None]


def test_a_translation_belongs_to_one_line():
    """It belongs to the line in which it begins; two translations of one line are joined."""
    timeline = timeline_of(
        commit(word(0.0, " Yes."), word(1.0, " No.")),
        translation("ja", 0.0, 0.3),
        translation("doch ", 0.2, 1.1),
        translation("nein", 1.0, 1.3),
        translation(" spät", 50.0, 51.0),
    )

    assert outline(timeline) == [("Yes.", None, "ja doch"), ("No.", None, "nein spät")]


TIMES = st.integers(0, 60).map(lambda tenths: tenths / 4)


@st.composite
def histories(draw):
    """Return events in a possible order: text and pauses by time, labels anywhere."""
    events, time = [], 0.0
    for _ in range(draw(st.integers(0, 14))):
        length = draw(st.sampled_from([0.05, 0.5, 3.0]))
        if draw(st.integers(0, 3)) == 0:
            events.append(SilenceSpan(Silence(time, time + length), time + length))
        else:
            text = draw(st.sampled_from([" a", "b", " end.", " long" * 9, "今" * 30, "。"]))
            events.append(commit(word(time, text, length, draw(st.sampled_from([None, 1])))))
        time += length
    for _ in range(draw(st.integers(0, 6))):
        start, length = draw(TIMES), draw(st.sampled_from([0.1, 0.7, 4.0]))
        label = draw(st.sampled_from(["anna", "bert", "text"]))
        make = translation if label == "text" else turn
        event = make(label, start, start + length)
        events.insert(draw(st.integers(0, len(events))), event)
    return events


@given(events=histories())
def test_each_word_has_one_line_and_the_speaker_of_its_line(events):
    """Whatever comes late, no word is lost, duplicated or moved, and no line mixes speakers."""
    timeline = timeline_of(*events)
    texts = [line for line in timeline.lines if isinstance(line, TextLine)]
    committed = [e.tokens[0].text for e in events if isinstance(e, Commit)]
    translated = [line.translation for line in texts if line.translation]

    assert [token.text for line in texts for token in line.tokens] == committed
    assert all(token.speaker == line.speaker for line in texts for token in line.tokens)
    assert [line.start for line in timeline.lines] == sorted(line.start for line in timeline.lines)
    if texts:
        translations = sum(isinstance(event, Translation) for event in events)
        assert translations == " ".join(translated).split().count("text")
