"""Speakers that come later than the text: each word is in one segment, once it is certain."""

from __future__ import annotations

from hypothesis import given, strategies

from wlk_core.tokens import ASRToken, SpeakerSpan
from wlk_serve.words import SpeakerSegments


def words(*starts):
    """Return words of half a second that begin at the given times."""
    return [ASRToken(start, start + 0.5, f" w{start:g}") for start in starts]


def taken(speakers):
    """Return utterance, speaker and text of the segments that have become certain."""
    return [(name, line.speaker, line.text) for name, line in speakers.take()]


def test_a_word_that_is_covered_in_part_waits_for_the_delay():
    """Another span may still come that covers more of the word."""
    speakers = SpeakerSegments(1.0)
    speakers.extend("a", words(1))
    speakers.end("a")
    speakers.add_span(SpeakerSpan("anna", 1.3, 2.4))
    early = taken(speakers)
    speakers.add_span(SpeakerSpan("bert", 0.9, 1.4))
    speakers.advance(2.5)

    assert early == []
    assert taken(speakers) == [("a", "bert", "w1")]


def test_a_word_without_a_speaker_waits_for_the_next_one():
    """The span of a long monologue may only come at the end of the monologue."""
    speakers = SpeakerSegments(1.0)
    speakers.extend("a", words(0))
    speakers.end("a")
    speakers.advance(100.0)
    early = taken(speakers)
    speakers.add_span(SpeakerSpan("bert", 100, 101))

    assert early == []
    assert taken(speakers) == [("a", None, "w0")]


def test_text_that_is_dropped_is_in_no_segment():
    """A client that clears its buffer drops the open item, not the one before it."""
    speakers = SpeakerSegments(1.0)
    speakers.extend("a", words(0))
    speakers.end("a")
    speakers.extend("b", words(1))
    speakers.discard()
    speakers.settle()

    assert taken(speakers) == [("a", None, "w0")]


SPANS = strategies.builds(
    lambda speaker, start, length: SpeakerSpan(speaker, start, start + length),
    strategies.integers(0, 2),
    strategies.floats(0, 20),
    strategies.floats(0, 10),
)


@given(
    steps=strategies.lists(SPANS | strategies.integers(1, 4) | strategies.none(), max_size=30),
    delay=strategies.floats(0, 5),
)
def test_each_word_is_in_one_segment_whatever_the_order(steps, delay):
    """Spans, words and ends of utterances come in any order; no word is lost or duplicated."""
    speakers = SpeakerSegments(delay)
    time, utterance = 0, 0
    given_words, segments = [], []
    for step in steps:
        if isinstance(step, SpeakerSpan):
            speakers.add_span(step)
        elif step is None:
            speakers.end(str(utterance))
            utterance += 1
        else:
            tokens = words(*range(time, time + step))
            labelled = speakers.extend(str(utterance), tokens)
            assert [token.text for token in labelled] == [token.text for token in tokens]
            given_words += [(str(utterance), token.text) for token in tokens]
            time += step
        segments += speakers.take()
    speakers.end(str(utterance))
    speakers.settle()
    segments += speakers.take()

    assert [(name, t.text) for name, line in segments for t in line.tokens] == given_words
    assert all(len({t.speaker for t in line.tokens}) == 1 for _, line in segments)
