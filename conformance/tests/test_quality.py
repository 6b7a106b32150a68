from __future__ import annotations

from hypothesis import given, strategies

from wlk_conformance.quality import align, word_errors

WORDS = strategies.lists(strategies.sampled_from(["one", "two", "three"]), max_size=8)


def test_errors_are_counted():
    """A substitution, an insertion and a deletion are an error each."""
    assert 0 == word_errors(["one", "two"], ["one", "two"])
    assert 3 == word_errors(["one", "two", "three"], ["four", "two", "two", "three", "one"])
    assert 2 == word_errors(["one", "two"], [])


@given(WORDS, WORDS)
def test_an_alignment_pairs_equal_words_in_order(said, heard):
    """Pairs are equal words, in order, and leave exactly the errors over."""
    pairs = align(said, heard)

    assert all(said[i] == heard[j] for i, j in pairs)
    assert pairs == sorted(pairs)
    assert len(pairs) >= max(len(said), len(heard)) - word_errors(said, heard)


@given(WORDS, WORDS)
def test_errors_are_a_distance(said, heard):
    """The count is symmetric, and zero for equal words only."""
    assert word_errors(said, heard) == word_errors(heard, said)
    assert (word_errors(said, heard) == 0) == (said == heard)
