"""LocalAgreement and the removal of overlap by time."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core.streaming import LocalAgreement, Word, split_overlap

TEXTS = st.lists(st.sampled_from([" one", " two", " seven"]), max_size=8)


def spoken(texts, *, gap=0.2, length=0.3):
    """Return words of equal length with equal pauses."""
    step = length + gap
    return [Word(index * step, index * step + length, text) for index, text in enumerate(texts)]


@given(TEXTS, TEXTS)
def test_the_common_prefix_of_two_hypotheses_is_committed(first, second):
    """The longest common prefix is committed, but for the last word of the newer hypothesis."""
    policy = LocalAgreement()
    policy.update(spoken(first), audio_end=0.0)
    committed = policy.update(spoken(second), audio_end=0.0)
    common = 0
    while common < min(len(first), len(second) - 1) and first[common] == second[common]:
        common += 1

    assert second[:common] == [word.text for word in committed]
    assert second[common:] == [word.text for word in policy.hypothesis]


@given(st.lists(TEXTS, min_size=1, max_size=8))
def test_committed_and_hypothesis_are_the_newest_text(tails):
    """Every word of the newest hypothesis is committed or shown, once and in order."""
    policy, committed = LocalAgreement(), []
    for tail in tails:
        newest = [*committed, *tail]
        committed += [
            word.text for word in policy.update(spoken(newest)[len(committed) :], audio_end=0.0)
        ]

        assert newest == [*committed, *(word.text for word in policy.hypothesis)]


def test_words_agree_by_their_letters():
    """A comma or a capital that comes and goes does not hold a word back."""
    policy = LocalAgreement()
    policy.update(spoken([" Hello,", " world", " of"]), audio_end=0.0)
    newer = [" hello", " world.", " Often"]

    assert [" hello", " world."] == [w.text for w in policy.update(spoken(newer), audio_end=0.0)]


def test_a_last_word_waits_for_the_next_one_or_a_flush():
    """Two hypotheses may agree on what a model made of the first half of a word."""
    policy = LocalAgreement()
    policy.update(spoken([" the", " wind"]), audio_end=0.0)

    assert [" the"] == [w.text for w in policy.update(spoken([" the", " wind"]), audio_end=0.0)]
    assert [" wind"] == [w.text for w in policy.flush()]


def test_a_last_word_is_final_once_a_second_without_words_follows():
    """Audio without a pause that a gate would report holds no word back."""
    policy = LocalAgreement()
    policy.update(spoken([" the", " wind"]), audio_end=1.0)
    agreed = policy.update(spoken([" the", " wind"]), audio_end=1.9)

    assert [" the", " wind"] == [word.text for word in agreed]


@given(
    st.lists(st.sampled_from([" seven", " two"]), min_size=1, max_size=10),
    st.floats(0.05, 1.0),
    st.data(),
)
def test_repeated_words_survive_the_removal_of_overlap(texts, gap, data):
    """Equal words next to each other are separated by time, whatever the pause between them."""
    words = spoken(texts, gap=gap)
    count = data.draw(st.integers(0, len(words)), label="committed")
    jitter = st.floats(-0.1, 0.1)
    moved = [
        attrs.evolve(word, start=max(0.0, word.start + data.draw(jitter)), end=word.end)
        for word in words
    ]
    committed = words[:count]
    end = committed[-1].end if committed else 0.0
    old, fresh = split_overlap(moved, committed, end)

    assert tuple(moved) == old + fresh
    assert count == len(old)


@pytest.mark.parametrize("shift", [-0.12, 0.0, 0.12], ids=["early", "exact", "late"])
def test_a_boundary_that_moves_neither_loses_nor_repeats_a_word(shift):
    """A committed word whose times move by 0.12 s is still the same word."""
    committed = spoken([" one", " seven"])
    again = [word.shifted(shift) for word in spoken([" one", " seven", " seven", " two"])]
    _, fresh = split_overlap(again, committed, committed[-1].end)

    assert [" seven", " two"] == [word.text for word in fresh]


def test_an_end_that_reaches_into_the_pause_hides_no_word():
    """A word after a committed word with an end far too late is still new."""
    committed = [Word(3.0, 5.0, " one")]
    again = [Word(3.0, 3.4, " one"), Word(4.0, 4.4, " two"), Word(4.6, 4.9, " one")]
    _, fresh = split_overlap(again, committed, 5.0)

    assert [" two", " one"] == [word.text for word in fresh]


def test_a_hypothesis_without_the_committed_word_is_all_new_after_its_end():
    """A committed word that is missing from the hypothesis takes no other word with it."""
    committed = [Word(0.5, 0.9, " one")]
    _, fresh = split_overlap([Word(1.0, 1.4, " one"), Word(1.5, 1.9, " two")], committed, 0.9)

    assert [" one", " two"] == [word.text for word in fresh]
