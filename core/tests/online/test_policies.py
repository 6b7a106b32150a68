"""Which words are final and which were committed before: policies and overlap removal."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core.online.local_agreement import count_agreed, split_overlap
from wlk_core.plugins import AlignAtt, AlignedWord, Hypothesis, LocalAgreementRecognizer, Word

POLICIES = st.builds(AlignAtt, border_frames=st.integers(0, 30), rewind_frames=st.integers(0, 60))
FRAMES = st.lists(st.integers(0, 200), max_size=12)
TEXTS = st.lists(st.sampled_from([" one", " two", " seven"]), max_size=8)


def spoken(texts, *, gap=0.2, length=0.3):
    """Return words of equal length with equal pauses."""
    step = length + gap
    return [Word(index * step, index * step + length, text) for index, text in enumerate(texts)]


@given(POLICIES, FRAMES, st.integers(0, 220), st.integers(0, 200), st.integers(0, 10**6))
def test_the_final_tokens_are_those_before_the_first_that_may_change(
    policy, tokens, frames, last_frame, shift
):
    """The count follows the definition token by token, wherever frames count from."""

    def may_change(index):
        farthest = max([last_frame, *tokens[:index]])
        is_at_border = tokens[index] >= frames - policy.border_frames
        return is_at_border or tokens[index] < farthest - policy.rewind_frames

    changing = [index for index in range(len(tokens)) if may_change(index)]
    words = [AlignedWord(0.0, 0.0, "", frames=(frame + shift,)) for frame in tokens]
    count = policy.count_final(words, frames=frames + shift, last_frame=last_frame + shift)

    assert min(changing, default=len(tokens)) == count


@given(TEXTS, TEXTS)
def test_the_common_prefix_of_two_hypotheses_is_final(first, second):
    """Every word of the common prefix is final, and no other."""
    agreed = count_agreed(spoken(first), spoken(second))

    assert first[:agreed] == second[:agreed]
    assert first[agreed : agreed + 1] != second[agreed : agreed + 1] or agreed == len(first)


def test_words_agree_by_their_letters():
    """A comma or a capital that comes and goes does not hold a word back."""
    before = [" Hello,", " world", " of"]

    assert count_agreed(spoken(before), spoken([" hello", " world.", " Often"])) == 2


@given(
    st.lists(st.sampled_from([" seven", " two"]), min_size=1, max_size=10),
    st.floats(0.05, 1.0),
    st.data(),
)
def test_repeated_words_survive_the_removal_of_overlap(texts, gap, data):
    """Adjacent equal words are separated by time, whatever the pause between them."""
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
    assert len(old) == count


@pytest.mark.parametrize("shift", [-0.12, 0.0, 0.12], ids=["early", "exact", "late"])
def test_a_boundary_that_moves_neither_loses_nor_repeats_a_word(shift):
    """A committed word whose times move by 0.12 s is still the same word."""
    committed = spoken([" one", " seven"])
    again = [word.shifted(shift) for word in spoken([" one", " seven", " seven", " two"])]
    _, fresh = split_overlap(again, committed, committed[-1].end)

    assert [word.text for word in fresh] == [" seven", " two"]


def test_an_end_that_reaches_into_the_pause_hides_no_word():
    """A word after a committed word whose end is far too late is still new."""
    committed = [Word(3.0, 5.0, " one")]
    again = [Word(3.0, 3.4, " one"), Word(4.0, 4.4, " two"), Word(4.6, 4.9, " one")]
    _, fresh = split_overlap(again, committed, 5.0)

    assert [word.text for word in fresh] == [" two", " one"]


def test_a_hypothesis_without_the_committed_word_is_all_new_after_its_end():
    """A committed word that the hypothesis lacks hides no other word."""
    committed = [Word(0.5, 0.9, " one")]
    _, fresh = split_overlap([Word(1.0, 1.4, " one"), Word(1.5, 1.9, " two")], committed, 0.9)

    assert [word.text for word in fresh] == [" one", " two"]


@pytest.mark.parametrize(
    ("times", "text"),
    [
        ([(1.5, 1.5), (1.8, 1.8)], " so so"),  # repetitions that fill a pause
        ([(1.5, 1.7)], " so so so"),  # a spoken word takes time
        ([(3.9, 3.94)], " so so so"),  # cut off by the end of the audio
    ],
)
def test_a_word_that_fills_the_pause_after_itself_is_not_committed_again(times, text):
    """Whisper emits such a word again, aligned to almost no audio."""
    words = [Word(start, end, " so") for start, end in [(0.1, 0.3), (0.5, 0.9), *times]]
    recognizer = LocalAgreementRecognizer(
        lambda audio, **_: Hypothesis(words=[w for w in words if w.end <= len(audio) / 16_000])
    )
    recognizer.feed(np.zeros(64_000, np.float32))
    steps = [recognizer.step(is_last=False) for _ in range(4)] + [recognizer.step(is_last=True)]

    assert "".join(word.text for step in steps if step for word in step.committed) == text
