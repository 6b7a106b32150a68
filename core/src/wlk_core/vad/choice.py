"""The gate of a stream as its user chooses it."""

from __future__ import annotations

from wlk_core.errors import OptionError
from wlk_core.untrusted import shown
from wlk_core.vad.detector import SileroDetector
from wlk_core.vad.gate import SilenceGate
from wlk_core.vad.parameters import GateParameters

__all__ = ["silence_gate"]


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
