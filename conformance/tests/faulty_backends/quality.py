"""Faulty backends that break QUAL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faulty_backends.base import FaultyStream, breaks
from wlk_core import ASRToken

if TYPE_CHECKING:
    from wlk_core import Emission

__all__: list[str] = []

LONG = 25.0  # seconds


@breaks("QUAL-01", tiers=("speech",), spec={"bounds": {"wer": -0.01}})
class ExceedsDeclaredErrors(FaultyStream):
    """Declares a word error rate that it does not reach."""


@breaks("QUAL-02", tiers=("speech",))
class InventsWords(FaultyStream):
    """Commits thanks in half a minute without speech."""

    has_spoken = False

    def finish(self) -> Emission:
        """Commit thanks."""
        emission = super().finish()
        if self.has_spoken or self.stream.stats.audio_seconds < LONG:
            return emission
        self.has_spoken = True
        return emission.replace(committed=(ASRToken(1.0, 1.5, "Thank you.", 1.0, None, "en"),))

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Note whether there was text."""
        del call
        self.has_spoken = self.has_spoken or bool(emission.committed)
        return emission


@breaks("QUAL-04")
class DropsWordsAfterQuiet(FaultyStream):
    """Drops two words of three in a stream whose first word follows more than a second of quiet."""

    count = 0
    is_quiet = False

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Drop them."""
        del call
        kept = []
        for token in emission.committed:
            self.is_quiet = 1.1 < token.start < 1.3 if not self.count else self.is_quiet
            if not self.is_quiet or self.count % 3 == 0:
                kept.append(token)
            self.count += 1
        return emission.replace(committed=tuple(kept))

    def reset(self) -> None:
        """Start over."""
        self.count = 0
        self.stream.reset()
