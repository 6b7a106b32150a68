"""Text from token ids: whole characters, whole words, exact times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_voxtral.detokenizer import StreamingDetokenizer
from wlk_voxtral.speculative import TokenPrediction

PAD, WORD, FIRST = 2, 3, 4  # text ids: FIRST + a byte


def ids_of(data):
    """Return the ids of bytes."""
    return [FIRST + value for value in data]


@pytest.fixture(scope="module")
def texts_of(tokenizer):
    """Return a function from token ids to the texts they complete."""

    def complete(ids):
        detokenizer = StreamingDetokenizer(tokenizer)
        texts = [detokenizer.push(TokenPrediction(token_id)) for token_id in ids]
        texts.append(detokenizer.finish())
        return [text for text in texts if text is not None]

    return complete


WORDS = st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=6)


@given(words=WORDS, gap=st.integers(0, 5))
def test_each_marker_gives_back_its_word(texts_of, words, gap):
    """Words of any script are assembled byte by byte."""
    words = [word.encode(errors="ignore").decode() for word in words]
    words = [word for word in words if word.strip()]
    ids = [token_id for word in words for token_id in [WORD, *ids_of(word.encode()), *[PAD] * gap]]

    assert [text.text for text in texts_of(ids)] == words


@given(words=WORDS, data=st.data())
def test_no_character_is_lost_wherever_the_text_is_broken(texts_of, words, data):
    """Markers and pads inside a character do not damage it."""
    text = "".join(words).encode(errors="ignore").decode()
    ids = ids_of(text.encode())
    for _ in range(data.draw(st.integers(0, 6))):
        ids.insert(data.draw(st.integers(0, len(ids))), data.draw(st.sampled_from([PAD, WORD])))

    assert "".join(part.text for part in texts_of(ids)).rstrip() == text.rstrip()


def test_invalid_bytes_are_left_out(texts_of):
    """No replacement character is ever returned."""
    ids = [WORD, *ids_of(b"a\xff\xc3b\xe4\xbd"), PAD]

    assert [text.text for text in texts_of(ids)] == ["ab"]


def test_text_without_a_marker_ends_where_the_marker_would_have_been(texts_of):
    """Words have times even if the model leaves out a marker."""
    first, second = texts_of([WORD, *ids_of(b" a"), PAD, PAD, *ids_of(b" b"), PAD])

    assert (first.end, second.end) == (pytest.approx(0.08), pytest.approx(0.40))


def test_a_lone_space_waits_for_its_word(texts_of):
    """No empty text is returned, and no space is lost."""
    ids = [WORD, *ids_of(b" "), PAD, WORD, *ids_of(b"one")]

    assert [text.text for text in texts_of(ids)] == [" one"]


def test_the_probability_is_the_mean_of_the_ids(tokenizer):
    """The mean is geometric, so that a long word is not less probable because of its length."""
    detokenizer = StreamingDetokenizer(tokenizer)
    for probability, token_id in ((0.1, WORD), (0.5, FIRST + 97), (0.125, FIRST + 98)):
        detokenizer.push(TokenPrediction(token_id, probability))
    text = detokenizer.push(TokenPrediction(PAD))

    assert text.probability == pytest.approx(0.25)
