"""LocalAgreement and the removal of overlap by time."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core.streaming import LocalAgreement, Word, split_overlap

TEXTS = st.lists(st.sampled_from([" one", " two", " seven"]), max_size=8)


def spoken(texts, *, gap=0.2, length=0.3):
    """Return words of equal length, said one after the other."""
    step = length + gap
    return [Word(index * step, index * step + length, text) for index, text in enumerate(texts)]


@given(TEXTS, TEXTS)
def test_what_two_hypotheses_begin_with_is_committed(first, second):
    """The longest common prefix of two hypotheses is committed, no more and no less."""
    policy = LocalAgreement()
    policy.update(spoken(first))
    committed = policy.update(spoken(second))
    common = 0
    while common < min(len(first), len(second)) and first[common] == second[common]:
        common += 1

    assert second[:common] == [word.text for word in committed]
    assert second[common:] == [word.text for word in policy.hypothesis]


@given(st.lists(TEXTS, max_size=8))
def test_committed_and_hypothesis_are_the_newest_text(hypotheses):
    """Nothing of the newest hypothesis is lost or said twice."""
    policy, committed = LocalAgreement(), []
    for texts in hypotheses:
        committed += policy.update(spoken(texts)[len(committed) :])

    newest = hypotheses[-1] if hypotheses else []
    if len(committed) <= len(newest):
        shown = [word.text for word in (*committed, *policy.hypothesis)]
        assert newest[len(committed) :] == shown[len(committed) :]


def test_agreement_is_about_letters():
    """A comma or a capital that comes and goes does not hold a word back."""
    policy = LocalAgreement()
    policy.update(spoken([" Hello,", " world"]))

    assert [" hello", " world."] == [w.text for w in policy.update(spoken([" hello", " world."]))]


def test_a_flush_commits_the_hypothesis_once():
    """After a flush nothing is left to commit."""
    policy = LocalAgreement()
    policy.update(spoken([" one"]))

    assert [" one"] == [word.text for word in policy.flush()]
    assert () == policy.flush()


@given(
    st.lists(st.sampled_from([" seven", " two"]), min_size=1, max_size=10),
    st.floats(0.05, 1.0),
    st.data(),
)
def test_words_said_twice_survive_the_removal_of_overlap(texts, gap, data):
    """Equal words next to each other are told apart by time, whatever the pause between them."""
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
    """A committed word that is heard a little elsewhere is still the same word."""
    committed = spoken([" one", " seven"])
    again = [word.shifted(shift) for word in spoken([" one", " seven", " seven", " two"])]
    _, fresh = split_overlap(again, committed, committed[-1].end)

    assert [" seven", " two"] == [word.text for word in fresh]


def test_an_end_that_reaches_into_the_pause_hides_no_word():
    """A new word behind a committed one whose end was given far too late is still new."""
    committed = [Word(3.0, 5.0, " one")]
    again = [Word(3.0, 3.4, " one"), Word(4.0, 4.4, " two"), Word(4.6, 4.9, " one")]
    _, fresh = split_overlap(again, committed, 5.0)

    assert [" two", " one"] == [word.text for word in fresh]


def test_the_only_committed_word_is_recognised_at_the_very_front():
    """Where the hypothesis begins with the committed word, it is that word that is old."""
    committed = [Word(0.5, 0.6, " one")]
    again = [Word(0.45, 0.9, " one"), Word(1.0, 1.4, " two")]

    old, fresh = split_overlap(again, committed, 0.6)

    assert ([" one"], [" two"]) == ([w.text for w in old], [w.text for w in fresh])


def test_a_hypothesis_without_the_committed_word_is_all_new_behind_its_end():
    """A committed word that is no longer heard takes no other word with it."""
    committed = [Word(0.5, 0.9, " one")]
    _, fresh = split_overlap([Word(1.0, 1.4, " one"), Word(1.5, 1.9, " two")], committed, 0.9)

    assert [" one", " two"] == [word.text for word in fresh]
