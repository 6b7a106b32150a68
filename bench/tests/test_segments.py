from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from wlk_bench.metrics.segmentation import mwer_segments, soft_segments

from .conftest import steady

WORDS = st.sampled_from(["one", "two", "three", "tree", "no", "."])
SEGMENTS = st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=4)


@steady
@given(SEGMENTS)
def test_a_perfect_text_is_cut_like_the_reference(segments):
    """Without errors every word belongs to its own segment, in both segmentations."""
    words = [word for segment in segments for word in segment]
    ends = [sum(map(len, segments[: i + 1])) for i in range(len(segments))]
    expected = [list(range(end - len(s), end)) for end, s in zip(ends, segments, strict=True)]

    assert expected == [list(own) for own in mwer_segments(segments, words)]
    assert expected == soft_segments(segments, words)


@steady
@given(SEGMENTS, st.lists(WORDS, max_size=12))
def test_every_word_is_in_one_range_in_order(segments, words):
    """No word is lost or counted twice, and segments do not overlap."""
    everything = list(range(len(words)))

    assert everything == [i for own in mwer_segments(segments, words) for i in own]


@steady
@given(SEGMENTS, st.lists(WORDS.filter(str.isalpha), max_size=12))
def test_every_word_belongs_to_one_segment_in_order(segments, words):
    """The soft segmentation loses no word and keeps the order, too."""
    parts = [*segments, ["end"]]
    segments = [[word for word in part if word.isalpha()] for part in parts]

    assert list(range(len(words))) == [i for own in soft_segments(segments, words) for i in own]


def test_a_mark_before_all_words_belongs_to_no_segment():
    """Punctuation before the first word is left out, as in OmniSTEval."""
    assert [[1]] == soft_segments([["one"]], [".", "one"])


@steady
@given(SEGMENTS, st.lists(WORDS, min_size=1, max_size=12))
def test_the_segmentation_has_the_fewest_possible_errors(segments, words):
    """The errors of all segments add up to the distance of the whole texts."""
    whole = [word for segment in segments for word in segment]

    errors = sum(
        Levenshtein.distance(segment, words[own.start : own.stop])
        for segment, own in zip(segments, mwer_segments(segments, words), strict=True)
    )

    # The cuts are those of mweralign, which may pay for marks before the first word.
    assert Levenshtein.distance(whole, words) <= errors <= Levenshtein.distance(whole, words) + 2


def test_segments_of_a_silent_stream_are_empty():
    """Without hypothesis words every segment is empty."""
    assert [[], []] == [list(own) for own in mwer_segments([["a"], ["b"]], [])]
    assert [[], []] == soft_segments([["a"], ["b"]], [])
