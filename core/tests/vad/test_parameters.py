"""The parameters of voice activity detection that users choose."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core import OptionError
from wlk_core.vad import GateParameters


@given(st.floats(0, 5), st.floats(0.01, 5))
def test_a_silence_is_certain_after_its_seconds(pre_roll, rest):
    """Pre-roll, hang-over and least silence add up to it."""
    chosen = GateParameters(pre_roll=pre_roll, silence_seconds=pre_roll + rest)

    assert pre_roll + rest == pytest.approx(pre_roll + chosen.hang_over + chosen.min_silence)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"threshold": 1.5}, "from 0 to 1, got 1.5"),
        ({"pre_roll": -0.1}, "pre-roll of -0.1"),
        ({"silence_seconds": 0.4}, "a longer silence"),
        ({"silence_seconds": float("inf")}, "inf"),
    ],
)
def test_a_parameter_out_of_range_is_refused(options, match):
    """One line names what came."""
    with pytest.raises(OptionError, match=match):
        GateParameters(**options)
