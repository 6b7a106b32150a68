"""Words, times and errors of transcripts, however the text is cut into tokens."""

from __future__ import annotations

from hypothesis import given, strategies
import pytest

from wlk_conformance.compare import (
    align,
    check_times,
    start_errors,
    start_pattern,
    timed_words,
    word_errors,
    words_of,
)
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
        (["你好", "吗"], [("你", 0.0), ("好", 0.0), ("吗", 1.0)]),
        ([], []),
    ],
    ids=["words", "pieces", "phrase", "joined", "numerals", "unspaced", "nothing"],
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


SPOKEN = [(0.4, 0.7), (0.8, 1.3), (2.6, 2.9), (3.1, 3.4), (3.5, 3.9), (6.0, 6.3), (6.4, 6.9)]
QUIET = [0.4, 0.5, 1.8, 2.0, 2.1, 4.2, 4.3]  # seconds of pauses before each


@pytest.mark.parametrize(
    ("starts", "named"),
    [
        ([start + 0.31 for start, _ in SPOKEN], "0.31 s too late: an offset"),
        ([start - 0.2 for start, _ in SPOKEN], "0.20 s too early: an offset"),
        ([start * 1.1 for start, _ in SPOKEN], "by +6.00 s per minute of audio: a drift"),
        ([start - quiet for (start, _), quiet in zip(SPOKEN, QUIET, strict=True)], "left out"),
        ([0.4 + number for number in range(7)], "spread evenly"),
        ([start for start, _ in SPOKEN], ""),
        ([0.9, 0.8, 2.0, 4.0, 3.5, 6.6, 6.0], ""),
    ],
    ids=["late", "early", "drift", "pauses cut out", "spread evenly", "right", "without a pattern"],
)
def test_the_pattern_of_wrong_starts_is_named(starts, named):
    """A message says what the errors have in common, and nothing if that is unknown."""
    assert named in start_pattern(SPOKEN, starts)
    assert bool(start_pattern(SPOKEN, starts)) == bool(named)


def test_times_that_are_all_late_are_called_an_offset():
    """The failure of one token names the pattern of all."""
    words = tokens(" one", " two", " three", " four")

    with pytest.raises(AssertionError, match=r"0\.300 s off.*0\.30 s too late: an offset"):
        check_times(words, [word.shifted(0.3) for word in words], tolerance=0.1)
