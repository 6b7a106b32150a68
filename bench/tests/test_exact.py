"""The fast ways to a metric come to what the plain ones come to, to the last bit and tie."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
import jiwer
import pytest
from rapidfuzz.distance import Levenshtein

from wlk_bench.metrics.edit_steps import distance, edit_steps
from wlk_bench.metrics.error_rate import character_edits, distances, word_edits
from wlk_bench.metrics.mwer_segments import mwer_segments
from wlk_bench.metrics.similarity import Similarity
from wlk_bench.metrics.soft_alignment import BLOCK_WORDS, soft_alignment

from .conftest import steady
from .plain import plain_mwer_starts, plain_similarity, plain_soft_alignment

WORDS = st.sampled_from(["a", "b", "ab", "ba", "abc", "B", "."])
TEXTS = st.lists(WORDS, max_size=14)
SEGMENTS = st.lists(st.lists(WORDS, max_size=5), min_size=1, max_size=5)


def spoilt(words, rng, rate):
    """Return *words* with a share of them replaced, left out or doubled."""
    heard = []
    for word in words:
        luck = rng.random() / rate
        heard += [rng.choice(words)] if luck < 0.5 else [] if luck < 0.75 else [word]
        heard += [rng.choice(words)] if 0.75 <= luck < 1 else []
    return heard


def read_text(length, *, seed, rate):
    """Return a text of that many words, what was heard of it, and segments of the text."""
    rng = random.Random(seed)  # noqa: S311 -- reproducible texts, no secrets
    vocabulary = ["".join(rng.choices("etaoinshr", k=rng.randint(1, 6))) for _ in range(60)]
    said = rng.choices(vocabulary, k=length)
    return said, spoilt(said, rng, rate), [said[i : i + 7] for i in range(0, length, 7)]


@steady
@given(SEGMENTS, TEXTS.filter(bool))
def test_the_stream_is_cut_as_the_whole_table_says(segments, words):
    """Rows of bits hold the same path as a table of costs, ties and empty segments included."""
    assert plain_mwer_starts(segments, words) == [
        own.start for own in mwer_segments(segments, words)
    ]


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.9])
def test_a_longer_stream_is_cut_as_the_whole_table_says(rate):
    """What is kept of each row is all that the path passes."""
    _, heard, segments = read_text(150, seed=1, rate=rate)

    assert plain_mwer_starts(segments, heard) == [
        own.start for own in mwer_segments(segments, heard)
    ]


@steady
@given(TEXTS.filter(bool), TEXTS.filter(bool))
def test_a_soft_alignment_is_that_of_the_whole_table(reference, heard):
    """Leaving out what cannot be the best changes no pair."""
    assert plain_soft_alignment(reference, heard) == soft_alignment(
        reference, heard, Similarity(reference, heard)
    )


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.9])
def test_a_soft_alignment_of_several_blocks_is_that_of_the_whole_table(rate):
    """Blocks are joined without a seam."""
    said, heard, _ = read_text(2 * BLOCK_WORDS + 9, seed=2, rate=rate)

    assert plain_soft_alignment(said, heard) == soft_alignment(said, heard, Similarity(said, heard))


@steady
@given(TEXTS.filter(bool), TEXTS.filter(bool))
def test_a_block_of_similarities_is_made_of_single_ones(reference, heard):
    """Computed at once or one by one, a similarity is the same number."""
    similarity = Similarity(reference, heard)
    expected = [[plain_similarity(said, word) for word in heard] for said in reference]

    assert expected == similarity.block(range(len(reference)), range(len(heard))).tolist()
    assert expected == [
        [similarity.of(i, j) for j in range(len(heard))] for i in range(len(reference))
    ]


@pytest.mark.parametrize("rate", [0.001, 0.02, 0.1, 0.4, 0.9])
@pytest.mark.parametrize("length", [50, 800, 2500])
def test_a_hint_changes_no_edit(length, rate):
    """Whether rapidfuzz is told of the distance or not, it finds the same edits."""
    said, heard, _ = read_text(length, seed=length, rate=rate)
    ours, theirs = "".join(said), "".join(heard)

    assert Levenshtein.opcodes(ours, theirs) == edit_steps(ours, theirs)
    assert Levenshtein.distance(ours, theirs) == distance(ours, theirs)
    assert Levenshtein.opcodes(said, heard) == edit_steps(said, heard)


@pytest.mark.parametrize("rate", [0.02, 0.4])
def test_characters_are_compared_as_jiwer_does(rate):
    """The counts are those of jiwer, and so is the distance of the raw texts."""
    said, heard, _ = read_text(900, seed=3, rate=rate)
    output = jiwer.process_characters("".join(said), "".join(heard))

    counts = character_edits(" ".join(said), " ".join(heard)).counts
    by_word, by_character = distances(" ".join(said), " ".join(heard))

    assert output.cer == counts.rate == by_character.rate
    assert (output.hits, output.substitutions, output.deletions, output.insertions) == (
        counts.hits,
        counts.substitutions,
        counts.deletions,
        counts.insertions,
    )
    assert word_edits(" ".join(said), " ".join(heard)).counts.rate == by_word.rate
