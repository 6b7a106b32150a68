from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from wlk_bench.metrics.segmentation import soft_alignment, soft_segments

from .conftest import steady

MARKS = set(".!?,;:-()。！？，；：—（）ー")  # noqa: RUF001 -- the full-width ones are meant
LETTERS = st.lists(st.sampled_from(["a", "b", "ab", "ba", "abc", "B", "."]), max_size=40)
WORDS = st.sampled_from(["one", "two", "three", "tree", "no", "."])
SEGMENTS = st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=4)


def plain_similarity(a, b):
    """Return the share of letters that two words have in common."""
    if (a in MARKS) != (b in MARKS):
        return -math.inf
    return len(set(a) & set(b)) / len(set(a) | set(b))


def plain_soft_alignment(reference, hypothesis):
    """Return the alignment of the largest sum of similarities, by filling the whole table."""
    scores = [[0.0] * (len(hypothesis) + 1)]
    for expected in reference:
        row = [0.0]
        for column, word in enumerate(hypothesis, 1):
            pair = scores[-1][column - 1] + plain_similarity(expected, word)
            row.append(max(pair, scores[-1][column], row[-1]))
        scores.append(row)
    pairs, i, j = [], len(reference), len(hypothesis)
    while i or j:
        here = scores[i][j]
        likeness = plain_similarity(reference[i - 1], hypothesis[j - 1]) if i and j else -math.inf
        if i and j and here == scores[i - 1][j - 1] + likeness:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif i and here == scores[i - 1][j]:
            i -= 1
            pairs.append((i, None))
        else:
            j -= 1
            pairs.append((None, j))
    return pairs[::-1]


@steady
@given(LETTERS.filter(bool), LETTERS.filter(bool))
def test_a_soft_alignment_is_that_of_the_whole_table(reference, hypothesis):
    """Bits hold the same path as a table of sums, ties included."""
    assert plain_soft_alignment(reference, hypothesis) == soft_alignment(reference, hypothesis)


@steady
@given(SEGMENTS)
def test_a_perfect_text_is_cut_like_the_reference(segments):
    """Without errors every word belongs to its own segment."""
    words = [word for segment in segments for word in segment]
    ends = [sum(map(len, segments[: i + 1])) for i in range(len(segments))]

    expected = [list(range(end - len(s), end)) for end, s in zip(ends, segments, strict=True)]
    assert expected == soft_segments(segments, words)


@steady
@given(SEGMENTS, st.lists(WORDS.filter(str.isalpha), max_size=12))
def test_every_word_belongs_to_one_segment_in_order(segments, words):
    """No word is lost or counted twice."""
    parts = [*segments, ["end"]]
    segments = [[word for word in part if word.isalpha()] for part in parts]

    assert list(range(len(words))) == [i for own in soft_segments(segments, words) for i in own]
