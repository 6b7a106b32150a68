"""The fast algorithms give what the plain ones give, to the last bit and tie."""

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
    """The part of each row that is stored is all that the path passes."""
    _, hypothesis, segments = random_text(150, seed=1, rate=rate)

    assert plain_mwer_starts(segments, hypothesis) == [
        own.start for own in mwer_segments(segments, hypothesis)
    ]


@steady
@given(TEXTS.filter(bool), TEXTS.filter(bool))
def test_a_soft_alignment_is_that_of_the_whole_table(reference, hypothesis):
    """Leaving out cells that cannot be on the best path changes no pair."""
    assert plain_soft_alignment(reference, hypothesis) == soft_alignment(
        reference, hypothesis, Similarity(reference, hypothesis)
    )


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.9])
def test_a_soft_alignment_of_several_blocks_is_that_of_the_whole_table(rate):
    """Blocks are joined without a seam."""
    reference, hypothesis, _ = random_text(2 * BLOCK_WORDS + 9, seed=2, rate=rate)

    assert plain_soft_alignment(reference, hypothesis) == soft_alignment(
        reference, hypothesis, Similarity(reference, hypothesis)
    )


@steady
@given(TEXTS.filter(bool), TEXTS.filter(bool))
def test_a_block_of_similarities_is_made_of_single_ones(reference, hypothesis):
    """Computed at once or one by one, a similarity is the same number."""
    similarity = Similarity(reference, hypothesis)
    expected = [[plain_similarity(word, other) for other in hypothesis] for word in reference]

    assert expected == similarity.block(range(len(reference)), range(len(hypothesis))).tolist()
    assert expected == [
        [similarity.of(i, j) for j in range(len(hypothesis))] for i in range(len(reference))
    ]


@pytest.mark.parametrize("rate", [0.001, 0.02, 0.1, 0.4, 0.9])
@pytest.mark.parametrize("length", [50, 800, 2500])
def test_a_hint_changes_no_edit(length, rate):
    """With and without the distance as a hint, rapidfuzz finds the same edits."""
    reference, hypothesis, _ = random_text(length, seed=length, rate=rate)
    ref, hyp = "".join(reference), "".join(hypothesis)

    assert Levenshtein.opcodes(ref, hyp) == edit_steps(ref, hyp)
    assert Levenshtein.distance(ref, hyp) == distance(ref, hyp)
    assert Levenshtein.opcodes(reference, hypothesis) == edit_steps(reference, hypothesis)


@pytest.mark.parametrize("rate", [0.02, 0.4])
def test_characters_are_compared_as_jiwer_does(rate):
    """The counts are those of jiwer, and so is the distance of the raw texts."""
    reference, hypothesis, _ = random_text(900, seed=3, rate=rate)
    output = jiwer.process_characters("".join(reference), "".join(hypothesis))

    counts = character_edits(" ".join(reference), " ".join(hypothesis)).counts
    by_word, by_character = distances(" ".join(reference), " ".join(hypothesis))

    assert output.cer == counts.rate == by_character.rate
    assert (output.hits, output.substitutions, output.deletions, output.insertions) == (
        counts.hits,
        counts.substitutions,
        counts.deletions,
        counts.insertions,
    )
    assert word_edits(" ".join(reference), " ".join(hypothesis)).counts.rate == by_word.rate
