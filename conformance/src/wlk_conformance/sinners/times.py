"""Sinners against TIME."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_conformance.sinners.sinner import Sin, sinner

if TYPE_CHECKING:
    from wlk_core import ASRToken, Emission

__all__: list[str] = []


@sinner("TIME-01", defects="B20, B23")
class EndsBehindTheAudio(Sin):
    """Ends the last word before a turn behind the audio that there is."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Pad its end."""
        if call != "new_speaker" or not emission.committed:
            return emission
        last = attrs.evolve(emission.committed[-1], end=emission.processed_up_to + 0.05)
        return attrs.evolve(emission, committed=(*emission.committed[:-1], last))


@sinner("TIME-02", defects="B22, B23")
class GoesBackAfterALongPause(Sin):
    """Lets the first word after a minute of silence start before the last one before it."""

    last_start = 0.0
    is_back = False

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Look at the length."""
        self.stream.end_silence(seconds, offset)
        self.is_back = 60.5 < seconds < 62  # noqa: PLR2004 -- the pause of TIME-02

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Move one word; nothing is said to be stable, so that no other promise is broken."""
        del call
        tokens = list(emission.committed)
        if tokens and self.is_back:
            tokens[0] = attrs.evolve(tokens[0], start=self.last_start - 0.1)
            self.is_back = False
        if tokens:
            self.last_start = tokens[-1].start
        return attrs.evolve(emission, committed=tuple(tokens), stable_up_to=0.0)


@sinner("TIME-03")
class CallsEverythingStable(Sin):
    """Says that everything it has processed is stable, words held back included."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Say so."""
        del call
        return attrs.evolve(emission, stable_up_to=emission.processed_up_to)


@sinner("TIME-03")
class ReportsGoBack(Sin):
    """Reports less at a turn than before it."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Report a second less."""
        if call != "new_speaker" or emission.processed_up_to < 5:  # noqa: PLR2004 -- seconds
            return emission
        return attrs.evolve(emission, processed_up_to=emission.processed_up_to - 3.0)


@sinner("TIME-04", defects="B09")
class StartsLateAfterFiveSeconds(Sin):
    """Adds a frame to every time after a leading silence of five seconds."""

    extra = 0.0

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Look at the length."""
        if not self.stream.stats.audio_seconds and seconds == 5.0:  # noqa: PLR2004 -- the threshold
            self.extra = 0.01
        self.stream.end_silence(seconds, offset)

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Move the words."""
        del call
        return attrs.evolve(
            emission,
            committed=tuple(
                attrs.evolve(token, start=token.start + self.extra, end=token.end + self.extra)
                for token in emission.committed
            ),
        )


@sinner("TIME-05", defects="B19, B20, B22")
class SpreadsWords(Sin):
    """Stretches a word into the second of quiet before it."""

    last: ASRToken | None = None

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Start words after a quiet stretch early; nothing is said to be stable."""
        del call
        tokens = []
        for token in emission.committed:
            is_after_quiet = self.last is not None and 1.0 < token.start - self.last.end < 2.0  # noqa: PLR2004 -- seconds
            self.last = token
            tokens.append(
                attrs.evolve(token, start=token.start - 0.15) if is_after_quiet else token
            )
        return attrs.evolve(emission, committed=tuple(tokens), stable_up_to=0.0)
