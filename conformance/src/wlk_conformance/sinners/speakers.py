"""Sinners against SPK and LANG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from wlk_conformance.sinners.sinner import Sin, sinner

if TYPE_CHECKING:
    from wlk_core import Emission

__all__: list[str] = []

LONG = 5.0  # seconds of silence at which the earlier code began anew


def _all(emission: Emission, **changes: Any) -> Emission:
    tokens = tuple(attrs.evolve(token, **changes) for token in emission.committed)
    return attrs.evolve(emission, committed=tokens)


@sinner("SPK-01", defects="B08")
class DropsWhatATurnFlushes(Sin):
    """Flushes at a turn and throws away what came."""

    def new_speaker(self, change: Any) -> Emission:
        """Throw it away."""
        return attrs.evolve(super().new_speaker(change), committed=())


class _SinceALongSilence(Sin):
    """Has changed since a long silence."""

    has_changed = False

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Look at the length."""
        self.stream.end_silence(seconds, offset)
        self.has_changed = self.has_changed or seconds >= LONG

    def reset(self) -> None:
        """Begin anew."""
        self.has_changed = False
        self.stream.reset()


@sinner("SPK-02", defects="B09")
class ForgetsWhoSpeaks(_SinceALongSilence):
    """Forgets the speaker at a long silence."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Forget."""
        if call == "new_speaker":
            self.has_changed = False
        return _all(emission, speaker=None) if self.has_changed else emission


@sinner("LANG-01", defects="B09, B42")
class ForgetsTheLanguage(_SinceALongSilence):
    """Forgets the language at a long silence."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Forget."""
        del call
        return _all(emission, detected_language=None) if self.has_changed else emission


@sinner("LANG-01", defects="B42")
class ReportsAName(Sin):
    """Reports a language that it detected by its name instead of its code."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Report the name."""
        del call
        return emission if self.language else _all(emission, detected_language="English")


@sinner("LANG-02", tiers=("speech",))
class DetectsAnotherLanguage(Sin):
    """Hears English and says that it is German."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Say so, where no language is forced."""
        del call
        return emission if self.language else _all(emission, detected_language="de")


@sinner("LANG-02", defects="B37", tiers=("speech",))
class LeaksItsHeader(Sin):
    """Lets the header of the model into the text of a stream of nine words."""

    words = 0

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Put it in place of the last word of nine."""
        self.words += len(emission.committed)
        if call != "finish" or self.words != 9 or not emission.committed:  # noqa: PLR2004 -- words
            return emission
        last = attrs.evolve(emission.committed[-1], text=" language English")
        return attrs.evolve(emission, committed=(*emission.committed[:-1], last))

    def reset(self) -> None:
        """Begin anew."""
        self.words = 0
        self.stream.reset()
