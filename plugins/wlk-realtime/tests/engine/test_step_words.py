"""Deltas of steps are assembled into words."""

from __future__ import annotations

from bursts import STEP
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_realtime.engine.step_words import StepWords

TEXTS = st.lists(st.sampled_from(["", "", " ", " one", "two", ".", " 字", "\n"]), max_size=60)


def assembled(texts, audio=None):
    """Return the words assembled from the deltas *texts*."""
    words = StepWords()
    words.append(np.zeros(len(texts) * STEP, np.float32) if audio is None else audio)
    return [word for text in texts for word in words.push(text)] + words.finish()


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["one", "", " two", ""], ["one", " two"]),
        (["one", " two"], ["one", " two"]),
        (["one", "", ",", ""], ["one", ","]),
        ([" ", "", "one", ""], [" one"]),
        (["字", "", "典", ""], ["字", "典"]),
        (["", " ", ""], []),
    ],
    ids=["marker", "space", "punctuation", "lone space", "script without spaces", "nothing"],
)
def test_words_end_with_an_empty_text_or_a_space(texts, expected):
    """No text is lost, except a space that no word follows."""
    assert [word.text for word in assembled(texts)] == expected


@given(TEXTS)
def test_text_is_complete_and_in_order(texts):
    """Whatever a model emits, the words have all its text, and their times lie in the audio."""
    words = assembled(texts)

    joined = "".join(word.text for word in words)
    assert "".join(texts).rstrip() == joined.rstrip()
    assert all(0 <= word.start <= word.end <= 0.08 * len(texts) + 1e-9 for word in words)
    assert sorted(word.start for word in words) == [word.start for word in words]
    assert all(word.text.strip() for word in words)
