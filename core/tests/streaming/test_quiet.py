"""Where audio is cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import numpy as np

from wlk_core.streaming import lowest_energy_sample


@given(st.integers(0, 4000), st.integers(400, 6000))
def test_the_cut_lies_in_the_pause(position, length):
    """In noise with one silent stretch, the cut is inside that stretch."""
    rng = np.random.default_rng(position * 10_007 + length)
    audio = rng.uniform(0.1, 0.5, 4000 + length).astype(np.float32)
    audio[position : position + 400] = 0.0

    assert position <= lowest_energy_sample(audio, window=320) <= position + 400


def test_audio_shorter_than_the_window_is_cut_in_the_middle():
    """There is nothing to choose from."""
    assert 5 == lowest_energy_sample(np.zeros(10, dtype=np.float32), window=320)
