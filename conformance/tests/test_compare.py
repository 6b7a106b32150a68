"""Words, times and errors of transcripts, however the text is cut into tokens."""

from __future__ import annotations

from hypothesis import given, strategies
import pytest

from wlk_conformance.compare import align, start_errors, timed_words, word_errors, words_of
from wlk_core.streaming import Word

WORDS = strategies.lists(strategies.sampled_from(["one", "two", "three"]), max_size=8)


def tokens(*texts):
    """Return a token for each text, the next one a second later."""
    return [Word(float(second), second + 0.5, text) for second, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([" One,", " two!"], [("one", 0.0), ("two", 1.0)]),
        ([" se", "ven", " nine"], [("seven", 0.0), ("nine", 2.0)]),
        (["one two", " three"], [("one", 0.0), ("two", 0.0), ("three", 1.0)]),
        (["one", "two"], [("onetwo", 0.0)]),
        ([" 15", "3"], [("one", 0.0), ("five", 0.0), ("three", 1.0)]),
        ([], []),
    ],
    ids=["words", "pieces", "phrase", "joined", "numerals", "nothing"],
)
def test_a_word_has_the_start_of_the_token_in_which_it_begins(texts, expected):
    """Words are found across tokens, without case and punctuation, digits one by one."""
    assert timed_words(tokens(*texts)) == expected
    assert words_of(tokens(*texts)) == [word for word, _ in expected]


def test_only_words_that_were_recognised_have_a_start_error():
    """A wrong word has no start error; the others have theirs, whatever was lost before."""
    spoken = tokens(" one", " two", " three", " four")
    recognised = [Word(1.2, 1.5, " two"), Word(2.0, 2.4, " nine"), Word(2.9, 3.4, " four")]

    assert start_errors(spoken, recognised) == pytest.approx([0.2, -0.1])


@given(WORDS, WORDS)
def test_an_alignment_pairs_equal_words_in_order(reference, hypothesis):
    """Pairs are equal words, in order, and the words without a pair are the errors."""
    pairs = align(reference, hypothesis)
    errors = word_errors(reference, hypothesis)

    assert all(reference[i] == hypothesis[j] for i, j in pairs)
    assert pairs == sorted(pairs)
    assert len(pairs) >= max(len(reference), len(hypothesis)) - errors
