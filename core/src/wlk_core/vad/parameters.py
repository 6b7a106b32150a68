"""What a user chooses of voice activity detection, and the gate that it makes."""

from __future__ import annotations

import math

import attrs

from wlk_core.errors import OptionError
from wlk_core.untrusted import real_number, shown
from wlk_core.vad.detector import SileroDetector
from wlk_core.vad.gate import SilenceGate

__all__ = ["GateParameters", "silence_gate"]

_QUIET_BELOW = 0.15  # Silero's own distance between the thresholds of speech and of quiet
_HANG_OVER_PART = 0.75  # of the silence beyond the pre-roll; 0.6 s of the default 0.8 s


@attrs.frozen(kw_only=True)
class GateParameters:
    """
    Voice activity detection as users know it.

    Attributes:
        threshold: the probability from which a frame is speech.
        silence_seconds: how much quiet ends an utterance.
        pre_roll: seconds of audio before speech that are decoded too.

    Raises:
        OptionError: `threshold` is not in [0, 1], or not 0 <= `pre_roll` < `silence_seconds`.

    """

    threshold: float = 0.5
    silence_seconds: float = 1.2
    pre_roll: float = 0.4

    def __attrs_post_init__(self) -> None:
        threshold = real_number(self.threshold)
        if threshold is None or not 0 <= threshold <= 1:
            raise OptionError(
                f"expected a threshold of speech from 0 to 1, got {shown(self.threshold)}"
            )
        silence, pre_roll = real_number(self.silence_seconds), real_number(self.pre_roll)
        if silence is None or pre_roll is None or not 0 <= pre_roll < silence < math.inf:
            raise OptionError(
                "expected a pre-roll of 0 s or more and a longer silence, got a pre-roll of "
                f"{shown(self.pre_roll)} and a silence of {shown(self.silence_seconds)}"
            )

    def lengths(self) -> dict[str, float]:
        """Return the arguments of SilenceGate."""
        rest = self.silence_seconds - self.pre_roll
        return {
            "threshold": self.threshold,
            "quiet_threshold": max(0.0, self.threshold - _QUIET_BELOW),
            "pre_roll": self.pre_roll,
            "hang_over": rest * _HANG_OVER_PART,
            "min_silence": rest * (1 - _HANG_OVER_PART),
        }


def silence_gate(vad: bool | GateParameters = True) -> SilenceGate | None:  # noqa: FBT001, FBT002 -- as `vad` of Backend.transcribe
    """
    Return a gate with its own detector for one stream; None where *vad* is False.

    Raises:
        OptionError: *vad* is neither a bool nor GateParameters.

    """
    if isinstance(vad, GateParameters):
        return SilenceGate(SileroDetector(), **vad.lengths())
    if not isinstance(vad, bool):
        raise OptionError(f"expected `vad` as True, False or GateParameters, got {shown(vad)}")
    return SilenceGate(SileroDetector()) if vad else None
