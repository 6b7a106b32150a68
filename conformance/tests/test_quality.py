from __future__ import annotations

from hypothesis import given, strategies

from wlk_conformance.compare import align, word_errors

WORDS = strategies.lists(strategies.sampled_from(["one", "two", "three"]), max_size=8)


def test_errors_are_counted():
    """A substitution, an insertion and a deletion are an error each."""
    assert 0 == word_errors(["one", "two"], ["one", "two"])
    assert 3 == word_errors(["one", "two", "three"], ["four", "two", "two", "three", "one"])
    assert 2 == word_errors(["one", "two"], [])


@given(WORDS, WORDS)
def test_an_alignment_pairs_equal_words_in_order(reference, hypothesis):
    """Pairs are equal words, in order, and the words without a pair are the errors."""
    pairs = align(reference, hypothesis)
    errors = word_errors(reference, hypothesis)

    assert all(reference[i] == hypothesis[j] for i, j in pairs)
    assert pairs == sorted(pairs)
    assert len(pairs) >= max(len(reference), len(hypothesis)) - errors


@given(WORDS, WORDS)
def test_errors_are_a_distance(reference, hypothesis):
    """The count is symmetric, and zero for equal words only."""
    assert word_errors(reference, hypothesis) == word_errors(hypothesis, reference)
    assert (word_errors(reference, hypothesis) == 0) == (reference == hypothesis)
