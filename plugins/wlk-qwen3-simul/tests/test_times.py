"""Word times: places of the attention, edges of the sound."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core.testing import connected_digits
from wlk_qwen3_simul.simul.times import word_times

RATE = 16_000


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("place", [0.3, 0.5, 0.7])
def test_a_word_begins_and_ends_with_its_sound(seed, place):
    """Wherever inside the word the attention is, and give or take a token."""
    clip = connected_digits(8, seed=seed, gap=(0.15, 0.5))
    rng = np.random.default_rng(seed)
    middles = [one.start + place * (one.end - one.start) - 0.04 for one in clip.words]
    places = [(at, at) for at in (np.array(middles) + rng.uniform(-0.05, 0.05, 8)).tolist()]
    found = word_times(places, clip.audio)
    off = [start - word.start for (start, _), word in zip(found, clip.words, strict=True)]

    assert np.median(np.abs(off)) <= 0.03
    assert np.abs(off).max() <= 0.25


@given(
    st.lists(st.floats(0.0, 4.0), max_size=8),
    st.integers(0, 4 * RATE),
    st.floats(0.0, 4.0),
    st.integers(0, 99),
)
def test_words_stay_in_order_and_behind_what_was_said(places, samples, floor, seed):
    """However the attention lies, and in whatever audio."""
    audio = np.random.default_rng(seed).normal(size=samples).astype(np.float32)
    spans = [(one, one) for one in sorted(places)]
    found = word_times(spans, audio, floor=floor)

    assert len(places) == len(found)
    assert all(floor <= start <= end for start, end in found)
    assert all(one[0] <= other[0] for one, other in pairwise(found))


def test_audio_without_change_keeps_the_places_of_the_model():
    """A tone says nothing of words; the attention does."""
    tone = np.sin(np.arange(4 * RATE) / 10).astype(np.float32)
    found = word_times([(0.5, 0.5), (2.5, 2.5)], tone)

    assert found[0][0] <= 0.54 <= found[0][1] <= found[1][0] + 0.01
    assert found[1][0] <= 2.54 <= found[1][1]
