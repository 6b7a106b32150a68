from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_bench.errors import DataError
from wlk_bench.metrics.error_rate import word_edits
from wlk_bench.metrics.lagging import laal
from wlk_bench.metrics.normalise import normaliser
from wlk_bench.metrics.statistics import paired_difference, ratio_interval

from .conftest import steady

TEXT = st.lists(st.sampled_from(["one", "two", "three", "four"]), max_size=30).map(" ".join)


@steady
@given(TEXT, TEXT, TEXT, st.integers(1, 9))
def test_blocks_add_up_to_the_whole(reference, hypothesis, other, block):
    """No word of the reference is in two blocks or in none, and two systems have the same ones."""
    edits, others = (word_edits(reference, text, block=block) for text in (hypothesis, other))

    assert edits.counts.errors == sum(errors for errors, _ in edits.blocks)
    assert edits.counts.reference_length == sum(length for _, length in edits.blocks)
    assert [n for _, n in edits.blocks] == [n for _, n in others.blocks]


def test_an_unknown_normaliser_is_refused_with_the_choices():
    """The message has every name."""
    with pytest.raises(DataError, match="one of english, basic, raw; got 'whisper'"):
        normaliser("whisper")


def test_a_system_does_not_differ_from_itself():
    """The paired difference of equal results is exactly zero, and resampling is seeded."""
    blocks = [(1, 9), (0, 11), (3, 10)]

    found = paired_difference(blocks, blocks)

    assert (0.0, 0.0, 0.0) == (found.difference, found.interval.low, found.interval.high)
    assert not found.is_significant
    assert ratio_interval(blocks) == ratio_interval(blocks)


@steady
@given(st.lists(st.floats(0, 100), min_size=1, max_size=20).map(sorted))
def test_average_lagging_grows_with_the_delays(delays):
    """Words that are all emitted a second later lag exactly a second more."""
    later = [delay + 1 for delay in delays]

    first = laal(delays, source_seconds=200, reference_length=20)
    second = laal(later, source_seconds=200, reference_length=20)

    assert second == pytest.approx(first + 1)
