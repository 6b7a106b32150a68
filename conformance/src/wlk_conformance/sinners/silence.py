"""Sinners against SIL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_conformance.sinners.sinner import Sin, sinner

if TYPE_CHECKING:
    from wlk_core import ASRToken, Emission

__all__: list[str] = []


@sinner("SIL-01", defects="B10")
class FlushesOnlyWhatIsDecoded(Sin):
    """Leaves audio that no step has seen for the next flush."""

    has_stepped = False
    held: tuple[ASRToken, ...] = ()

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Hold the words back."""
        committed, self.held = (*self.held, *emission.committed), ()
        if call == "start_silence" and not self.has_stepped:
            committed, self.held = (), committed
        self.has_stepped = True
        return attrs.evolve(emission, committed=committed)


@sinner("SIL-02", defects="B24")
class SaysItAgain(Sin):
    """Commits the last word again at a second start_silence."""

    last: tuple[ASRToken, ...] = ()

    def start_silence(self) -> Emission:
        """Say it again where nothing new is there to be said."""
        emission = super().start_silence()
        if not emission.committed and self.last:
            return attrs.evolve(emission, committed=self.last)
        self.last = emission.committed[-1:]
        return emission

    def insert_audio_chunk(self, audio: object, end_time: float | None = None) -> None:
        """Forget it."""
        self.last = ()
        self.stream.insert_audio_chunk(audio, end_time)


@sinner("SIL-03", defects="B09")
class ObeysTheOffset(Sin):
    """Moves the clock by the offset too."""

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Add it."""
        self.stream.end_silence(max(0.0, seconds + (offset or 0.0)), offset)


@sinner("SIL-03")
class TakesAnyDuration(Sin):
    """Takes a negative or undefined duration for none."""

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Ignore it."""
        if seconds >= 0:
            self.stream.end_silence(seconds, offset)


@sinner("SIL-04")
class Drifts(Sin):
    """Moves the clock by a tenth of a microsecond too much at each silence."""

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Add it."""
        self.stream.end_silence(seconds + 1e-7 if seconds > 0 else seconds, offset)


@sinner("SIL-05", defects="B10")
class BeginsInThePause(Sin):
    """Lets a word that begins with the audio after a pause begin in the pause."""

    pause_end: float | None = None

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Look whether it is a pause between words."""
        self.stream.end_silence(seconds, offset)
        self.pause_end = -1.0 if self.stream.stats.audio_seconds and seconds else None

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Move the first word after it; nothing is said to be stable."""
        if self.pause_end == -1.0 and call != "start_silence":
            self.pause_end = emission.stable_up_to
        tokens = list(emission.committed)
        if tokens and self.pause_end is not None:
            if abs(tokens[0].start - self.pause_end) < 0.01:  # noqa: PLR2004 -- seconds
                tokens[0] = attrs.evolve(tokens[0], start=tokens[0].start - 0.05)
            self.pause_end = None
        return attrs.evolve(emission, committed=tuple(tokens), stable_up_to=0.0)


@sinner("SIL-06", defects="B09, B36")
class TreatsAMinuteInAnotherWay(Sin):
    """Adds a frame to every time behind a silence of a minute or more."""

    extra = 0.0

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Look at the length."""
        if self.stream.stats.audio_seconds and 60 <= seconds < 3600:  # noqa: PLR2004 -- the threshold
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


class _AfterTwoSeconds(Sin):
    """Does something to the first words after a pause of two seconds."""

    is_next = False

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Look at the length."""
        self.stream.end_silence(seconds, offset)
        self.is_next = seconds == 2.0 and self.stream.stats.audio_seconds > 0  # noqa: PLR2004 -- the pause of SIL-07

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Change the words, once."""
        del call
        if not self.is_next or not emission.committed:
            return emission
        self.is_next = False
        return attrs.evolve(emission, committed=self.changed(emission.committed))

    def changed(self, tokens: tuple[ASRToken, ...]) -> tuple[ASRToken, ...]:
        """Return what becomes of them."""
        return tokens


@sinner("SIL-07", defects="B05, B12")
class JoinsOverAPause(_AfterTwoSeconds):
    """Loses the space between the words around a pause."""

    def changed(self, tokens: tuple[ASRToken, ...]) -> tuple[ASRToken, ...]:
        """Lose it."""
        return (attrs.evolve(tokens[0], text=tokens[0].text.strip()), *tokens[1:])


@sinner("SIL-07", defects="B11")
class LosesAWordAtAPause(_AfterTwoSeconds):
    """Loses the word after a pause."""

    def changed(self, tokens: tuple[ASRToken, ...]) -> tuple[ASRToken, ...]:
        """Lose it."""
        return tokens[1:]


@sinner("SIL-07")
class RepeatsAWordAtAPause(_AfterTwoSeconds):
    """Says the word after a pause twice."""

    def changed(self, tokens: tuple[ASRToken, ...]) -> tuple[ASRToken, ...]:
        """Say it twice."""
        first = attrs.evolve(tokens[0], end=tokens[0].start)
        again = attrs.evolve(tokens[0], text=f" {tokens[0].text.strip()}")
        return (first, again, *tokens[1:])
