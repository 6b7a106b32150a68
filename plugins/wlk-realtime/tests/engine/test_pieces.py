"""Where a long generation ends."""

from __future__ import annotations

from bursts import STEP, spoken
import numpy as np
import pytest

from wlk_realtime.engine.pieces import Rotation


def end_of(audio, longest):
    """Return the number of steps after which a generation ends; None where it does not."""
    rotation = Rotation(longest)
    steps = audio[: len(audio) // STEP * STEP].reshape(-1, STEP)
    return next((n for n, step in enumerate(steps, 1) if rotation.is_due(step)), None)


def test_a_generation_ends_in_a_pause():
    """In the last quarter, where the sound has ended."""
    audio = spoken((0, 15.5), (16.1, 20), seconds=20)

    assert 15.5 < end_of(audio, 240) * 0.08 < 16.1


def test_without_a_pause_it_ends_at_the_limit():
    """No step later."""
    assert 240 == end_of(spoken((0, 30), seconds=30), 240)


def test_a_longer_pause_is_preferred_while_there_is_time():
    """A short one early in the search is passed over for a long one."""
    audio = spoken((0, 15.0), (15.1, 17.0), (17.6, 20), seconds=20)

    assert 17.0 < end_of(audio, 240) * 0.08 < 17.6


@pytest.mark.parametrize("longest", [None, 1000])
def test_a_generation_within_the_limit_goes_on(longest):
    """With no limit known, it never ends."""
    assert end_of(np.zeros(700 * STEP, np.float32), longest) is None
