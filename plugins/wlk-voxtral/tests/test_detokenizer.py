"""Text out of marked ids: whole characters, whole words, exact times."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core.streaming import TokenPrediction
from wlk_voxtral.detokenizer import StreamingDetokenizer

PAD, WORD, FIRST = 0, 1, 2  # text ids: FIRST + a byte


@attrs.frozen
class Bytes:
    """A vocabulary of single bytes."""

    word_id: int = WORD

    def piece(self, token):
        """Return one byte."""
        return bytes([token - FIRST]) if token >= FIRST else b""


def ids_of(data):
    """Return the ids of bytes."""
    return [FIRST + value for value in data]


def say(ids):
    """Return what the ids say, and the text they were put into."""
    text = StreamingDetokenizer(Bytes())
    said = [one for token in ids if (one := text.push(TokenPrediction(token))) is not None]
    last = text.finish()
    return [*said, last] if last else said


WORDS = st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=6)


@given(WORDS, st.integers(0, 5))
def test_words_come_out_as_they_were_said(words, gap):
    """Whatever the script, each marker gives back its word, byte by byte."""
    words = [word.encode(errors="ignore").decode() for word in words]
    words = [word for word in words if word.strip()]
    ids = [token for word in words for token in [WORD, *ids_of(word.encode()), *[PAD] * gap]]

    assert words == [one.text for one in say(ids)]


@given(WORDS, st.data())
def test_no_character_is_lost_wherever_the_text_is_broken(words, data):
    """Markers and pads inside a character do not damage it."""
    text = "".join(words).encode(errors="ignore").decode()
    ids = ids_of(text.encode())
    for _ in range(data.draw(st.integers(0, 6))):
        ids.insert(data.draw(st.integers(0, len(ids))), data.draw(st.sampled_from([PAD, WORD])))

    assert text.rstrip() == "".join(one.text for one in say(ids)).rstrip()


def test_bytes_that_are_no_text_are_left_out():
    """No replacement character ever comes."""
    assert ["ab"] == [one.text for one in say([WORD, *ids_of(b"a\xff\xc3b\xe4\xbd"), PAD])]


@pytest.mark.parametrize("place", [0, 5, 15, 30])
def test_a_word_ends_where_its_marker_stands(place):
    """The id number k stands for the audio up to 0.08 (k + 1) s."""
    (said,) = say([*[PAD] * place, WORD, *ids_of(b" one"), PAD])

    assert 0.08 * (place + 1) == pytest.approx(said.end)


def test_text_without_a_marker_ends_where_the_marker_would_have_stood():
    """A model that forgets a marker still says when."""
    first, second = say([WORD, *ids_of(b" a"), PAD, PAD, *ids_of(b" b"), PAD])

    assert (0.08, 0.40) == (pytest.approx(first.end), pytest.approx(second.end))


def test_a_word_is_pending_until_something_else_comes():
    """The growing word is shown, and is complete with the next marker or pad."""
    text = StreamingDetokenizer(Bytes())
    shown = []
    for token in [WORD, *ids_of(" né".encode()), PAD]:
        complete = text.push(TokenPrediction(token))
        shown.append(text.pending.text if text.pending else None)

    assert [None, None, " n", " n", " né", None] == shown
    assert complete is not None
    assert " né" == complete.text


def test_a_lone_space_waits_for_its_word():
    """No empty token comes, and no space is lost."""
    assert [" one"] == [one.text for one in say([WORD, *ids_of(b" "), PAD, WORD, *ids_of(b"one")])]


def test_the_probability_is_the_mean_of_the_ids():
    """Geometric, so that long words are not less probable for being long."""
    text = StreamingDetokenizer(Bytes())
    for probability, token in ((0.1, WORD), (0.5, FIRST + 97), (0.125, FIRST + 98)):
        text.push(TokenPrediction(token, probability))
    said = text.push(TokenPrediction(PAD))

    assert 0.25 == pytest.approx(said.probability)


@given(st.lists(st.integers(0, 257), max_size=60))
def test_each_id_is_looked_at_once(ids):
    """The cost of the text path is one piece of bytes for each id of text."""
    text = StreamingDetokenizer(Bytes())
    for token in ids:
        text.push(TokenPrediction(token))

    assert sum(token >= FIRST for token in ids) == text.detokenised
