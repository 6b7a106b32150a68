"""Words of any script consist of whole characters with their spacing, and lose no text."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_qwen3_simul.engine.detokenize import split_words


def texts(vocabulary, text, *, is_complete=True):
    """Return the words of *text*."""
    words = split_words(vocabulary.encode(text), vocabulary, is_complete=is_complete)
    return [word.text for word in words]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello world", ["hello", " world"]),
        ("Well, don't (really) go.", ["Well,", " don't", " (really)", " go."]),
        ("今天天气很好。我们", ["今", "天", "天", "气", "很", "好。", "我", "们"]),
        ("Köln — Zürich", ["Köln", " —", " Zürich"]),
        ("ABC公司 news", ["ABC", "公", "司", " news"]),
        ("3.5 % of 10,000", ["3.5", " %", " of", " 10,000"]),
    ],
)
def test_a_word_has_its_own_spacing(vocabulary, text, words):
    """A space begins a word, a letter of an unspaced script is a word, punctuation ends one."""
    assert texts(vocabulary, text) == words


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30))
def test_words_joined_are_the_text(vocabulary, text):
    """Spaces are lost only at the edges, no space is added, and no character is broken."""
    ids = vocabulary.encode(text)
    words = split_words(ids, vocabulary, is_complete=True)
    whole = vocabulary.decode(ids)

    assert "".join(word.text for word in words).strip() in whole or not whole.strip()
    assert "".join(word.text for word in words).split() == whole.split()
    assert all("\ufffd" not in word.text for word in words)
    assert all(earlier.end_token <= later.first for earlier, later in pairwise(words))


@given(st.text("aé 今\U0001f600", max_size=12), st.integers(0, 40))
def test_bytes_of_an_unfinished_character_wait(vocabulary, text, count):
    """Wherever the tokens are cut, the words so far are the first words of the whole."""
    ids = vocabulary.encode(text)
    cut = split_words(ids[:count], vocabulary, is_complete=False)
    whole = split_words(ids, vocabulary, is_complete=True)

    assert all(part.text == word.text for part, word in zip(cut, whole, strict=False))
    assert len(cut) <= len(whole)
