"""The fast algorithms give what the plain ones give, to the last bit and tie."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_bench.metrics.segmentation import mwer_segments, soft_alignment

from .conftest import steady
from .plain import plain_mwer_starts, plain_soft_alignment

WORDS = st.sampled_from(["a", "b", "ab", "ba", "abc", "B", "."])
TEXTS = st.lists(WORDS, max_size=14)
SEGMENTS = st.lists(st.lists(WORDS, max_size=5), min_size=1, max_size=5)


def with_errors(words, rng, rate):
    """Return *words* with a share of them replaced, left out or doubled."""
    hypothesis = []
    for word in words:
        luck = rng.random() / rate
        hypothesis += [rng.choice(words)] if luck < 0.5 else [] if luck < 0.75 else [word]
        hypothesis += [rng.choice(words)] if 0.75 <= luck < 1 else []
    return hypothesis


def random_text(length, *, seed, rate):
    """Return a text of that many words, a hypothesis of it, and its segments."""
    rng = random.Random(seed)  # noqa: S311 -- reproducible texts, no secrets
    vocabulary = ["".join(rng.choices("etaoinshr", k=rng.randint(1, 6))) for _ in range(60)]
    text = rng.choices(vocabulary, k=length)
    segments = [text[i : i + 7] for i in range(0, length, 7)]
    return text, with_errors(text, rng, rate), segments


@steady
@given(SEGMENTS, TEXTS.filter(bool))
def test_the_stream_is_cut_like_the_whole_table(segments, words):
    """Rows of bits hold the same path as a table of costs, ties and empty segments included."""
    assert plain_mwer_starts(segments, words) == [
        own.start for own in mwer_segments(segments, words)
    ]


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.9])
def test_a_longer_stream_is_cut_like_the_whole_table(rate):
    """Integers of many words hold the same path."""
    _, hypothesis, segments = random_text(150, seed=1, rate=rate)

    assert plain_mwer_starts(segments, hypothesis) == [
        own.start for own in mwer_segments(segments, hypothesis)
    ]


@steady
@given(TEXTS.filter(bool), TEXTS.filter(bool))
def test_a_soft_alignment_is_that_of_the_whole_table(reference, hypothesis):
    """Bits hold the same path as a table of sums, ties included."""
    assert plain_soft_alignment(reference, hypothesis) == soft_alignment(reference, hypothesis)


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.9])
def test_a_longer_soft_alignment_is_that_of_the_whole_table(rate):
    """Bits of many words are packed without a gap."""
    reference, hypothesis, _ = random_text(137, seed=2, rate=rate)

    assert plain_soft_alignment(reference, hypothesis) == soft_alignment(reference, hypothesis)
