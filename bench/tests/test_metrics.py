"""Properties of the metrics that hold for any stream; test_by_hand has figures."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_bench.events import Commit, EventLog, Header, HypothesisShown, TimedText
from wlk_bench.metrics.emitted import committed_words, screens
from wlk_bench.metrics.error_rate import word_edits
from wlk_bench.metrics.segmentation import soft_alignment, soft_segments
from wlk_bench.metrics.statistics import paired_difference, ratio_interval
from wlk_bench.reference import Reference

from .conftest import random_log, steady

TEXT = st.lists(st.sampled_from(["one", "two", "three", "four"]), max_size=30).map(" ".join)


@steady
@given(TEXT, TEXT, TEXT, st.integers(1, 9))
def test_blocks_add_up_to_the_whole(reference, hypothesis, other, block):
    """Every reference word is in exactly one block, and two systems have the same blocks."""
    edits, others = (word_edits(reference, text, block=block) for text in (hypothesis, other))

    assert edits.counts.errors == sum(errors for errors, _ in edits.blocks)
    assert edits.counts.reference_length == sum(length for _, length in edits.blocks)
    assert [n for _, n in edits.blocks] == [n for _, n in others.blocks]


def test_a_system_does_not_differ_from_itself():
    """The paired difference of equal results is exactly zero, and resampling is seeded."""
    blocks = [(1, 9), (0, 11), (3, 10)]

    found = paired_difference(blocks, blocks)

    assert (found.difference, found.low, found.high) == (0.0, 0.0, 0.0)
    assert not found.is_significant
    assert ratio_interval(blocks) == ratio_interval(blocks)


def joined(*texts, unit="word"):
    """Join tokens that last a second each into words."""
    events = tuple(
        Commit(audio_time=i, wall=i + 0.5, tokens=(TimedText(i, i + 1, text),))
        for i, text in enumerate(texts)
    )
    header = Header(audio="x", audio_seconds=len(texts), reference=Reference(text=""))
    return committed_words(EventLog(header=header, events=events), unit)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ((" one", " two"), ["one", "two"]),
        ((" un", "believ", "able"), ["unbelievable"]),
        ((" end", ".", " Next"), ["end.", "Next"]),
        ((" in one", " go"), ["in", "one", "go"]),
        (("two ", "words"), ["two", "words"]),
        ((), []),
    ],
    ids=["words", "pieces", "punctuation", "several", "space-after", "nothing"],
)
def test_tokens_become_words_by_their_spacing(texts, words):
    """Only white space separates words."""
    assert [word.text for word in joined(*texts)] == words


def test_a_word_spans_its_tokens_and_is_emitted_with_the_last():
    """It starts with its first token; it ends and is emitted with its last."""
    (word,) = joined(" un", "believ", "able")

    assert (word.start, word.end) == (0, 3)
    assert (word.audio_time, word.wall) == (2, 2.5)


@steady
@given(st.integers(0, 10_000))
def test_screens_are_the_texts_that_were_displayed(seed):
    """Applied one after another they give every displayed text."""
    log = random_log(seed, segments=3)
    committed, expected, hypothesis = [], [], ()
    for event in log.events:
        if isinstance(event, Commit):
            committed += [token.text.strip() for token in event.tokens]
        elif isinstance(event, HypothesisShown):
            hypothesis = event.tokens
            expected.append([*committed, *(token.text.strip() for token in hypothesis)])

    shown, found = [], []
    for screen in screens(log):
        shown[screen.base :] = [word.text for word in screen.tail]
        found.append(list(shown))

    assert found == expected


MARKS = set(".!?,;:-()。！？，；：—（）ー")  # noqa: RUF001 -- the full-width ones are meant
LETTERS = st.lists(st.sampled_from(["a", "b", "ab", "ba", "abc", "B", "."]), max_size=40)
WORDS = st.sampled_from(["one", "two", "three", "tree", "no", "."])
SEGMENTS = st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=4)


def plain_similarity(a, b):
    """Return the share of letters that two words have in common; -inf between mark and word."""
    if (a in MARKS) != (b in MARKS):
        return -math.inf
    return len(set(a) & set(b)) / len(set(a) | set(b))


def plain_soft_alignment(reference, hypothesis):
    """Return the alignment with the largest sum of similarities, from the whole table."""
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
    """The packed bits give the same path as a table of sums, ties included."""
    assert soft_alignment(reference, hypothesis) == plain_soft_alignment(reference, hypothesis)


@steady
@given(SEGMENTS)
def test_a_perfect_text_is_cut_like_the_reference(segments):
    """Without errors every word belongs to the segment that it comes from."""
    words = [word for segment in segments for word in segment]
    ends = [sum(map(len, segments[: i + 1])) for i in range(len(segments))]

    expected = [list(range(end - len(s), end)) for end, s in zip(ends, segments, strict=True)]
    assert soft_segments(segments, words) == expected


@steady
@given(SEGMENTS, st.lists(WORDS.filter(str.isalpha), max_size=12))
def test_every_word_belongs_to_one_segment_in_order(segments, words):
    """No word is lost or counted twice."""
    parts = [*segments, ["end"]]
    segments = [[word for word in part if word.isalpha()] for part in parts]

    assert [i for own in soft_segments(segments, words) for i in own] == list(range(len(words)))
