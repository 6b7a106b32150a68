"""The parameters of voice activity detection that users choose."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core import OptionError
from wlk_core.vad import GateParameters, SilenceGate


class Detector:
    """A detector that is never called."""

    frame_samples = 512

    def reset(self):
        """Keep no state."""


def test_the_defaults_are_those_of_the_gate():
    """A program without options and one with the default values behave alike."""
    default, chosen = (
        SilenceGate(Detector()),
        SilenceGate(Detector(), **GateParameters().lengths()),
    )
    parameters = ("_threshold", "_quiet_threshold", "_pre_roll", "_hang_over", "_min_silence")

    for name in parameters:
        assert getattr(default, name) == pytest.approx(getattr(chosen, name)), name


@given(st.floats(0, 1), st.floats(0, 5), st.floats(0.01, 5))
def test_a_silence_is_certain_after_its_seconds(threshold, pre_roll, rest):
    """Pre-roll, hang-over and least silence add up to it."""
    chosen = GateParameters(threshold=threshold, pre_roll=pre_roll, silence_seconds=pre_roll + rest)
    lengths = chosen.lengths()

    assert pre_roll + rest == pytest.approx(
        lengths["pre_roll"] + lengths["hang_over"] + lengths["min_silence"]
    )
    SilenceGate(Detector(), **lengths)


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
