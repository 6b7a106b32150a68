"""Sinners against QUAL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_conformance.sinners.sinner import Sin, sinner
from wlk_core import ASRToken

if TYPE_CHECKING:
    from wlk_core import Emission

__all__: list[str] = []

LONG = 25.0  # seconds


@sinner("QUAL-01", tiers=("speech",), spec={"bounds": {"wer": -0.01}})
class IsWorseThanItSays(Sin):
    """Declares a word error rate that it does not reach."""


@sinner("QUAL-02", tiers=("speech",))
class ThanksForNothing(Sin):
    """Hears thanks in half a minute of nothing."""

    has_spoken = False

    def finish(self) -> Emission:
        """Say thanks."""
        emission = super().finish()
        if self.has_spoken or self.stream.stats.audio_seconds < LONG:
            return emission
        self.has_spoken = True
        return attrs.evolve(
            emission, committed=(ASRToken(1.0, 1.5, "Thank you.", 1.0, None, "en"),)
        )

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Remember whether it has spoken."""
        del call
        self.has_spoken = self.has_spoken or bool(emission.committed)
        return emission
