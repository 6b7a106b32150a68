"""Faulty backends that break SPK and LANG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from faulty_backends.base import FaultyStream, breaks, with_tokens

if TYPE_CHECKING:
    from wlk_core import Emission

__all__: list[str] = []

LONG = 5.0  # seconds of silence after which these streams change


@breaks("SPK-01")
class DropsTokensOfTurn(FaultyStream):
    """Flushes at a turn and drops the tokens."""

    def new_speaker(self, change: Any) -> Emission:
        """Drop the tokens."""
        return super().new_speaker(change).replace(committed=())


class _AfterLongSilence(FaultyStream):
    """Changes after a long silence."""

    has_changed = False

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Note the length."""
        self.stream.end_silence(seconds, offset)
        self.has_changed = self.has_changed or seconds >= LONG

    def reset(self) -> None:
        """Start over."""
        self.has_changed = False
        self.stream.reset()


@breaks("SPK-02")
class DropsSpeakerAtSilence(_AfterLongSilence):
    """Drops the speaker at a long silence."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Drop it."""
        if call == "new_speaker":
            self.has_changed = False
        return with_tokens(emission, speaker=None) if self.has_changed else emission


@breaks("LANG-01")
class DropsLanguageAtSilence(_AfterLongSilence):
    """Drops the language at a long silence."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Drop it."""
        del call
        return with_tokens(emission, detected_language=None) if self.has_changed else emission


@breaks("LANG-01")
class ReportsLanguageName(FaultyStream):
    """Reports a detected language by its name instead of its code."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Report the name."""
        del call
        return emission if self.language else with_tokens(emission, detected_language="English")


@breaks("LANG-02", tiers=("speech",))
class DetectsOtherLanguage(FaultyStream):
    """Reports English speech as German."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Report it, where no language is forced."""
        del call
        return emission if self.language else with_tokens(emission, detected_language="de")


@breaks("LANG-02", tiers=("speech",))
class LeaksHeader(FaultyStream):
    """Puts the header of the model into the text of a stream of nine words."""

    words = 0

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Replace the last word of nine."""
        self.words += len(emission.committed)
        if call != "finish" or self.words != 9 or not emission.committed:
            return emission
        last = attrs.evolve(emission.committed[-1], text=" language English")
        return emission.replace(committed=(*emission.committed[:-1], last))

    def reset(self) -> None:
        """Start over."""
        self.words = 0
        self.stream.reset()
