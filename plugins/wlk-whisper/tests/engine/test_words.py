"""From tokens to words: grouping, punctuation, incomplete characters."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from faster_whisper.tokenizer import Tokenizer
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
import tokenizers

import wlk_whisper
from wlk_whisper.engine.words import words_from_tokens

TOKENIZER_FILE = Path(wlk_whisper.__file__).parent / "digits/ctranslate2/tokenizer.json"
HF_TOKENIZER = tokenizers.Tokenizer.from_file(str(TOKENIZER_FILE))


def tokenizer(language="en"):
    """Return the tokenizer of a stream."""
    return Tokenizer(HF_TOKENIZER, True, task="transcribe", language=language)


def words_of(text, *, language="en", tokens=None):
    """Return the words of *text*; token i begins at frame 10 i and has probability 1/(i + 1)."""
    stream_tokenizer = tokenizer(language)
    ids = stream_tokenizer.encode(text) if tokens is None else tokens
    boundaries = 10 * np.arange(len(ids) + 1)
    probabilities = 1.0 / (1 + np.arange(len(ids)))
    return words_from_tokens(stream_tokenizer, ids, boundaries, probabilities), ids


def test_words_are_divided_at_spaces():
    """A word is all of its tokens: it begins with the first and ends where the next one begins."""
    words, ids = words_of(" one unbelievableness two")
    stop = len(ids) - 1

    assert [" one", " unbelievableness", " two"] == [span.word.text for span in words]
    assert [(0, 1), (1, stop), (stop, len(ids))] == [(span.first, span.stop) for span in words]
    assert 0.2 == pytest.approx(words[1].word.start)
    assert 0.2 * stop == pytest.approx(words[1].word.end)
    expected = np.mean(1.0 / (1 + np.arange(1, stop)))
    assert expected == pytest.approx(words[1].word.probability)


def test_punctuation_is_joined_to_its_word():
    """It changes the text and the tokens of the word, neither its times nor its probability."""
    parts = (" one", ",", ' "', " two", "!")
    words, _ = words_of("", tokens=[token for part in parts for token in tokenizer().encode(part)])

    assert [" one,", ' " two!'] == [span.word.text for span in words]
    assert [(0, 2), (2, 5)] == [(span.first, span.stop) for span in words]
    assert (0.0, 0.2, 1.0) == (words[0].word.start, words[0].word.end, words[0].word.probability)
    assert 0.6 == pytest.approx(words[1].word.start)
    assert 0.8 == pytest.approx(words[1].word.end)
    assert 0.25 == pytest.approx(words[1].word.probability)


def test_words_end_before_the_bytes_of_an_incomplete_character():
    """Any prefix of the tokens gives a prefix of the text, without a replacement character."""
    tokens = tokenizer("my").encode(" မင်္ဂ")
    for length in range(len(tokens) + 1):
        words, _ = words_of("", language="my", tokens=tokens[:length])

        assert " မင်္ဂ".startswith("".join(span.word.text for span in words))


def test_scripts_without_spaces_are_divided_between_characters():
    """Each complete character can be a word of its own."""
    words, _ = words_of("今日は仕事", language="ja")

    assert "今日は仕事" == "".join(span.word.text for span in words)
    assert len(words) > 1


def test_no_tokens_are_no_words():
    """An empty text has no words."""
    assert () == words_of("", tokens=[])[0]


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=20))
def test_words_joined_are_the_text(text):
    """Nothing but stretches of space is lost."""
    words, ids = words_of(text)
    decoded = tokenizer().decode(ids)
    joined = "".join(span.word.text for span in words)

    assert "\ufffd" in decoded or "".join(decoded.split()) == "".join(joined.split())
    assert all(0.0 <= span.word.probability <= 1.0 for span in words)
    assert all(a.stop <= b.first for a, b in pairwise(words))
