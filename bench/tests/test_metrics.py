from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_bench.errors import DataError, NotComparable
from wlk_bench.metrics.alignment import align_words
from wlk_bench.metrics.error_rate import character_edits, word_edits
from wlk_bench.metrics.lagging import laal, yaal
from wlk_bench.metrics.normalise import match_key, normaliser, unit_of
from wlk_bench.metrics.statistics import (
    Distribution,
    paired_difference,
    ratio_interval,
    slope,
)

from .conftest import steady

TEXT = st.lists(st.sampled_from(["one", "two", "three", "four"]), max_size=30).map(" ".join)


@steady
@given(TEXT, TEXT, st.integers(1, 9))
def test_blocks_add_up_to_the_whole(reference, hypothesis, block):
    """No error and no word of the reference is in two blocks or in none."""
    edits = word_edits(reference, hypothesis, block=block)

    assert edits.counts.errors == sum(errors for errors, _ in edits.blocks)
    assert edits.counts.reference_length == sum(length for _, length in edits.blocks)


@steady
@given(TEXT, TEXT, TEXT)
def test_blocks_do_not_depend_on_the_hypothesis(reference, hypothesis, other):
    """Two systems have the same blocks, so that they can be paired."""
    first, second = (
        word_edits(reference, hypothesis, block=3),
        word_edits(reference, other, block=3),
    )

    assert [n for _, n in first.blocks] == [n for _, n in second.blocks]


def test_an_empty_reference_counts_insertions():
    """Words recognised in silence are insertions, and there is no rate."""
    counts = word_edits("", "one two").counts

    assert (2, 0, None) == (counts.insertions, counts.reference_length, counts.rate)


def test_white_space_does_not_count_as_a_character():
    """Joining or splitting words costs no character error."""
    assert character_edits("to day", "today").counts.rate == 0.0


def test_an_unknown_normaliser_is_refused_with_the_choices():
    """The message has every name."""
    with pytest.raises(DataError, match="one of english, basic, raw; got 'whisper'"):
        normaliser("whisper")


@pytest.mark.parametrize(("word", "key"), [("Don't", "dont"), ("Café,", "café"), ("--", "")])
def test_words_match_without_case_and_punctuation(word, key):
    """The key of a word has neither spaces nor marks."""
    assert key == match_key(word)


@pytest.mark.parametrize(
    ("language", "unit"), [("en", "word"), (None, "word"), ("zh", "char"), ("th", "char")]
)
def test_a_script_without_spaces_is_counted_in_characters(language, unit):
    """The unit follows the language."""
    assert unit == unit_of(language)


def test_words_that_are_punctuation_align_with_nothing():
    """A dash on its own does not count as a missed word."""
    alignment = align_words(["one", "-", "two"], ["one", "two", "."])

    assert ((0, 0), (2, 1)) == alignment.equal
    assert alignment.substituted == ()


def test_an_interval_is_the_same_every_time():
    """The resampling is seeded."""
    blocks = [(1, 9), (0, 11), (3, 10), (0, 8)]

    assert ratio_interval(blocks) == ratio_interval(blocks)


def test_a_system_does_not_differ_from_itself():
    """The paired difference of equal results is exactly zero."""
    blocks = [(1, 9), (0, 11), (3, 10)]

    found = paired_difference(blocks, blocks)

    assert (0.0, 0.0, 0.0) == (found.difference, found.interval.low, found.interval.high)
    assert not found.is_significant


def test_blocks_of_other_references_are_not_paired():
    """Results of other data have no difference."""
    with pytest.raises(NotComparable, match="expected the same references"):
        paired_difference([(1, 9), (0, 11)], [(1, 9), (0, 12)])


def test_no_numbers_have_no_distribution():
    """Nothing measured is None, never 0."""
    assert Distribution.of([]) is None


@steady
@given(st.lists(st.floats(0, 100), min_size=1, max_size=20).map(sorted))
def test_average_lagging_grows_with_the_delays(delays):
    """Words that are all emitted a second later lag exactly a second more."""
    later = [delay + 1 for delay in delays]

    first = laal(delays, source_seconds=200, reference_length=20)
    second = laal(later, source_seconds=200, reference_length=20)

    assert second == pytest.approx(first + 1)


def test_words_emitted_at_the_end_have_no_yaal():
    """A system that waits for the end is not simultaneous."""
    assert yaal([3.0, 3.0], source_seconds=3, reference_length=2) is None
    assert laal([], source_seconds=3, reference_length=2) is None


def test_two_points_give_a_line_without_an_interval():
    """Too few points have no interval."""
    line = slope([0.0, 1.0], [1.0, 2.0])

    assert (1.0, None, None) == (line.per_hour, line.low, line.high)
    assert slope([1.0, 1.0], [1.0, 2.0]) is None
