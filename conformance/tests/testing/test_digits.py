"""The clips that ship with the core, and streams composed of them."""

from __future__ import annotations

import numpy as np
import pytest

from wlk_conformance.testing import clip_names, connected_digits, load_clip


@pytest.mark.parametrize("name", clip_names())
def test_a_clip_has_its_words_where_there_is_sound(name):
    """Every word lies in the audio, in order, and is louder than the pauses."""
    clip = load_clip(name)
    edges = [time for word in clip.words for time in (word.start, word.end)]

    assert edges == sorted(edges)
    assert edges[-1] <= clip.seconds
    inside = np.zeros(len(clip.audio), dtype=bool)
    for word in clip.words:
        inside[round(word.start * 16_000) : round(word.end * 16_000)] = True
    assert np.square(clip.audio[inside]).mean() > 10 * np.square(clip.audio[~inside]).mean()


def test_connected_digits_are_the_same_for_the_same_seed():
    """A seed fixes the words, their voice and their times."""
    clip, same, other = (connected_digits(12, seed=seed) for seed in (3, 3, 4))

    np.testing.assert_array_equal(clip.audio, same.audio)
    assert clip.words == same.words
    assert clip.text != other.text


def test_connected_digits_can_be_fixed():
    """The words are the digits requested."""
    assert connected_digits(3, digits=(7, 7, 2)).text == "seven seven two"
