"""Lines of text and pauses from the events of a session, against a plain recomputation."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wlk_core.segments import SegmentBuilder
from wlk_core.session import (
    Commit,
    End,
    Endpoint,
    SilenceSpan,
    SpeakerTurn,
    SpeechStarted,
    Translation,
)
from wlk_core.session.timeline import PauseLine, TextLine, Timeline
from wlk_core.tokens import ASRToken, Silence, SpeakerSpan, TranslatedText


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
    """Return a timeline that was given the events."""
    timeline = Timeline()
    for event in events:
        timeline.add(event)
    return timeline


def outline(timeline):
    """Return the lines as short tuples."""
    return [
        (line.text, line.speaker, line.translation)
        if isinstance(line, TextLine)
        else (round(line.start, 3), round(line.end, 3), line.is_open)
        for line in timeline.lines
    ]


def test_a_pause_is_a_line_between_two_lines_of_text():
    """Text, pause, text, in the order of their times."""
    pause = SilenceSpan(Silence(1.0, 5.0), 5.0)
    timeline = timeline_of(commit(word(0.5)), pause, commit(word(5.2, " two")))

    assert outline(timeline) == [("one", None, None), (1.0, 5.0, False), ("two", None, None)]


def test_pauses_that_touch_are_one():
    """A pause that was reported in two parts has one line."""
    parts = [SilenceSpan(Silence(1.0, 2.0), 2.0), SilenceSpan(Silence(2.0, 4.5), 4.5)]

    assert outline(timeline_of(*parts)) == [(1.0, 4.5, False)]


def test_an_open_pause_ends_with_the_audio_received():
    """No wall clock: at ten times real time the pause is as long as its audio."""
    timeline = timeline_of(commit(word(0.5)), Endpoint(1.0, "silence", 2.2))
    lengths = []
    for seconds in (3.0, 9.0):
        timeline.add(SpeakerTurn(SpeakerSpan("a", 90.0, 91.0), seconds))
        lengths.append(timeline.lines[-1].end)
    open_line = timeline.lines[-1]
    timeline.add(SilenceSpan(Silence(1.0, 9.5), 10.0))

    assert [3.0, 9.0] == lengths
    assert open_line.is_open
    assert outline(timeline)[1:] == [(1.0, 9.5, False)]


def test_a_pause_that_speech_ends_at_once_is_no_line():
    """An endpoint in the middle of speech leaves no pause."""
    events = [commit(word(0.5)), Endpoint(1.0, "silence", 1.2), SpeechStarted(1.0, 1.4)]

    assert outline(timeline_of(*events)) == [("one", None, None)]


def test_late_speakers_label_the_words_that_are_there():
    """Every word goes to the speaker that overlaps it longest, and none is lost or doubled."""
    words = [word(t / 2, f" w{t}") for t in range(8)]
    timeline = timeline_of(commit(*words))
    first = timeline.add(turn("anna", 0.0, 2.1))
    second = timeline.add(turn("bert", 2.05, 4.0))

    assert outline(timeline) == [
        ("w0 w1 w2 w3 w4"[:11], "anna", None),
        ("w4 w5 w6 w7", "bert", None),
    ]
    assert 0 == first
    assert 0 == second
    assert tuple(w.text for w in words) == tuple(
        token.text for line in timeline.lines for token in line.tokens
    )


def test_a_late_label_joins_two_lines_of_one_speaker():
    """The line before the tokens that it labels changes too."""
    words = [word(t / 2, f" w{t}") for t in range(4)]
    timeline = timeline_of(commit(*words), turn("anna", 0.0, 1.0), turn("bert", 1.0, 1.2))
    timeline.add(turn("bert", 1.5, 2.0))
    two = outline(timeline)
    first = timeline.add(turn("anna", 1.0, 1.45))

    assert [("w0 w1", "anna", None), ("w2 w3", "bert", None)] == two
    assert [("w0 w1 w2", "anna", None), ("w3", "bert", None)] == outline(timeline)
    assert 0 == first


def test_a_span_over_other_audio_changes_nothing():
    """An update reports that no line changed."""
    timeline = timeline_of(commit(word(0.5)))

    assert 1 == timeline.add(turn("anna", 3.0, 4.0))


def test_a_translation_belongs_to_one_line():
    """Across two lines it goes to the one it overlaps longest; two of one line are joined."""
    timeline = timeline_of(
        commit(word(0.0, " yes."), word(1.0, " no.")),
        translation("ja", 0.0, 0.3),
        translation("doch ", 0.2, 0.35),
        translation("nein", 0.25, 1.3),
        translation(" spät", 50.0, 51.0),
    )

    assert outline(timeline) == [("yes.", None, "ja doch"), ("no.", None, "nein spät")]


def test_a_translation_that_comes_before_its_text_waits():
    """It is attached when there is a line."""
    timeline = timeline_of(translation("ja", 0.0, 0.3), SilenceSpan(Silence(0.0, 1.0), 1.0))
    timeline.add(commit(word(1.5, " yes")))

    assert outline(timeline)[1:] == [("yes", None, "ja")]


def test_an_update_reports_the_first_line_that_changed():
    """A copy that is replaced from there on equals the timeline; the lines before stay."""
    timeline, copy, firsts = Timeline(), [], []
    for index in range(200):
        first = timeline.add(commit(word(float(index), f" w{index}.")))
        copy[first:] = timeline.lines_from(first)
        firsts.append(index - first)

    assert tuple(copy) == timeline.lines
    assert max(firsts) <= 2


def test_a_text_without_spaces_has_lines_too():
    """An update builds two lines again at most, so these must not become endless."""
    timeline, copy = Timeline(), []
    for index in range(500):
        first = timeline.add(commit(word(index / 4, "今", 0.25)))
        copy[first:] = timeline.lines_from(first)

    assert tuple(copy) == timeline.lines
    assert 28 == max(len(line.tokens) for line in timeline.lines)  # of 7 seconds


TIMES = st.integers(0, 60).map(lambda tenths: tenths / 4)


@st.composite
def histories(draw):
    """Return events in a possible order: text in order, pauses between, labels at any time."""
    events, time = [], 0.0
    for _ in range(draw(st.integers(0, 14))):
        if draw(st.integers(0, 3)) == 0:
            length = draw(st.sampled_from([0.05, 0.5, 3.0]))
            events.append(SilenceSpan(Silence(time, time + length), time + length))
            time += length
        else:
            tokens = []
            for _ in range(draw(st.integers(1, 3))):
                time += draw(st.sampled_from([0.0, 0.1, 1.0]))
                length = draw(st.sampled_from([0.0, 0.2, 0.5]))
                text = draw(st.sampled_from([" a", "b", " end.", " long" * 9, "今" * 30, "。"]))
                tokens.append(
                    ASRToken(time, time + length, text, None, draw(st.sampled_from([None, 1])))
                )
                time += length
            events.append(Commit(tuple(tokens), time))
    for _ in range(draw(st.integers(0, 6))):
        start, length = draw(TIMES), draw(st.sampled_from([0.1, 0.7, 4.0]))
        label = draw(st.sampled_from(["anna", "bert", "text"]))
        event = (
            translation(f"t{len(events)}", start, start + length)
            if label == "text"
            else turn(label, start, start + length)
        )
        events.insert(draw(st.integers(0, len(events))), event)
    return events


@given(events=histories())
def test_updates_give_what_a_recomputation_gives(events):
    """After every event the lines are those of everything at once, and a copy is up to date."""
    timeline, copy = Timeline(), []
    for count, event in enumerate(events, 1):
        first = timeline.add(event)
        copy[first:] = timeline.lines_from(first)

        assert tuple(recomputed(events[:count])) == timeline.lines == tuple(copy)


def recomputed(events):
    """Return the lines of events, computed at once and without any index."""
    tokens = [token for event in events if isinstance(event, Commit) for token in event.tokens]
    spans = sorted(
        (event.span for event in events if isinstance(event, SpeakerTurn)), key=lambda s: s.start
    )
    texts = sorted(
        (event.text for event in events if isinstance(event, Translation)), key=lambda t: t.start
    )
    lines = lines_of([labelled(token, spans) for token in tokens], merged_pauses(events))
    owned = {}
    for text in texts:
        candidates = [i for i, line in enumerate(lines) if isinstance(line, TextLine)]
        if not candidates:
            continue
        overlaps = {
            i: min(lines[i].end, text.end) - max(lines[i].start, text.start) for i in candidates
        }
        owner = max(candidates, key=lambda i: (overlaps[i], -i))
        if overlaps[owner] <= 0:
            earlier = [i for i in candidates if lines[i].start <= text.start]
            owner = earlier[-1] if earlier else candidates[0]
        owned.setdefault(owner, []).append(text.text)
    return [
        TextLine(tokens=line.tokens, translation=" ".join(owned[i])) if i in owned else line
        for i, line in enumerate(lines)
    ]


def labelled(token, spans):
    """Return a token with its speaker."""
    end = max(token.end, token.start + 1e-3)
    seconds = {}
    for span in spans:
        overlap = min(end, span.end) - max(token.start, span.start)
        if overlap > 0:
            seconds[span.speaker] = seconds.get(span.speaker, 0.0) + overlap
    speaker = max(seconds, key=seconds.get) if seconds else token.speaker
    return ASRToken(token.start, token.end, token.text, token.probability, speaker)


def merged_pauses(events):
    """Return the pauses, touching ones merged where no token is between them."""
    pauses, latest = [], None
    for event in events:
        if isinstance(event, Commit) and event.tokens:
            latest = event.tokens[-1].start
        elif isinstance(event, SilenceSpan):
            pause = event.silence
            last = pauses[-1] if pauses else None
            touches = last is not None and pause.start <= last.end + 0.02
            if touches and not (latest is not None and latest >= last.end - 0.02):
                pauses[-1] = Silence(last.start, max(last.end, pause.end))
            else:
                pauses.append(pause)
    return pauses


def lines_of(tokens, pauses):
    """Return lines of tokens and pauses by captions' own rules."""
    lines, line, builder, waiting = [], [], SegmentBuilder(), list(pauses)
    for token in tokens:
        while waiting and waiting[0].end <= token.start + 0.02:
            if line:
                lines.append(TextLine(tokens=tuple(line)))
                line, builder = [], SegmentBuilder()
            pause = waiting.pop(0)
            lines.append(PauseLine(start=pause.start, end=pause.end))
        if builder.push(token) is not None:
            lines.append(TextLine(tokens=tuple(line)))
            line = []
        line.append(token)
    if line:
        lines.append(TextLine(tokens=tuple(line)))
    return lines + [PauseLine(start=pause.start, end=pause.end) for pause in waiting]


def test_the_end_changes_no_line():
    """An End without a pause leaves the lines as they are."""
    timeline = timeline_of(commit(word(0.5)))

    assert 1 == timeline.add(End(audio_time=2.0, stats=None, latency=None))


def test_an_open_pause_follows_the_audio_without_events():
    """A program that shows a pause moves its end along with the audio."""
    timeline = timeline_of(commit(word(0.5)), Endpoint(1.0, "turn-detector", 1.3))
    timeline.advance(12.5)

    assert (1.0, 12.5, True) == outline(timeline)[-1]
