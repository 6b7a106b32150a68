"""Word times come from the attention, tightened to the speech."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_conformance.testing import connected_digits
from wlk_qwen3_simul.engine.timing import word_times

RATE = 16_000


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_a_word_begins_and_ends_with_its_speech(seed, share):
    """The attention may lie anywhere inside the word, or up to a token beside it."""
    clip = connected_digits(8, seed=seed, gap=(0.15, 0.5))
    rng = np.random.default_rng(seed)
    inside = [word.start + share * (word.end - word.start) - 0.04 for word in clip.words]
    attended = [(at, at) for at in (np.array(inside) + rng.uniform(-0.05, 0.05, 8)).tolist()]
    times = word_times(attended, clip.audio)
    errors = [start - word.start for (start, _), word in zip(times, clip.words, strict=True)]

    assert np.median(np.abs(errors)) <= 0.03
    assert np.abs(errors).max() <= 0.25


@given(
    st.lists(st.floats(0.0, 4.0), max_size=8),
    st.integers(0, 4 * RATE),
    st.floats(0.0, 4.0),
    st.integers(0, 99),
)
def test_words_stay_in_order_and_after_the_committed_text(attended, samples, floor, seed):
    """For any attention and audio, word starts never go back and never precede the floor."""
    audio = np.random.default_rng(seed).normal(size=samples).astype(np.float32)
    spans = [(seconds, seconds) for seconds in sorted(attended)]
    times = word_times(spans, audio, floor=floor)

    assert len(attended) == len(times)
    assert all(floor <= start <= end for start, end in times)
    assert all(earlier[0] <= later[0] for earlier, later in pairwise(times))
