"""Log-mel frames: the same however many are computed at once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_conformance.testing import noise, silence, tone
from wlk_core.streaming import LogMel

MEL = LogMel()


def test_a_frame_comes_for_every_window_that_fits():
    """Nothing is padded: 400 samples are one frame, and 160 more another one."""
    lengths = [len(MEL(silence(1.0)[:samples])) for samples in (0, 399, 400, 559, 560, 16_000)]

    assert [0, 0, 1, 1, 2, 98] == lengths


@settings(deadline=None, derandomize=True)  # a second of features each time
@given(st.integers(0, 60), st.integers(1, 40), st.integers(0, 2**16))
def test_frames_do_not_depend_on_their_neighbours(first, count, seed):
    """Any cut of the audio at frames gives the frames of the whole, bit by bit."""
    audio = noise(1.1, level=0.1, seed=seed)
    whole = MEL(audio)[first : first + count]
    alone = MEL(audio[160 * first : 160 * (first + count) + 240])

    np.testing.assert_array_equal(whole, alone)


def test_silence_lies_at_the_floor_and_loud_sounds_below_the_ceiling():
    """Energy of eight decades below the ceiling and less has one value."""
    assert np.unique(MEL(silence(0.1))) == pytest.approx([(1.5 - 8 + 4) / 4])
    assert MEL(tone(0.1, hertz=1000.0, level=1.0)).max() > 1.0


def test_a_tone_is_loudest_where_it_is():
    """1 kHz lies at mel 15 of 45.2 on the Slaney scale."""
    loudest = MEL(tone(0.2, hertz=1000.0)).mean(axis=0).argmax()

    assert 15 / 45.245640471924965 * 129 - 1 == pytest.approx(loudest, abs=1)
