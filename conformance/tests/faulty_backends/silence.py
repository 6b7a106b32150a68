"""Faulty backends that break SIL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from faulty_backends.base import FaultyStream, breaks

if TYPE_CHECKING:
    from wlk_core import ASRToken, Emission

__all__: list[str] = []


@breaks("SIL-01")
class FlushesOnlyDecodedAudio(FaultyStream):
    """Leaves audio that no step has decoded for the next flush."""

    has_stepped = False
    held: tuple[ASRToken, ...] = ()

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Hold back the words."""
        committed, self.held = (*self.held, *emission.committed), ()
        if call == "start_silence" and not self.has_stepped:
            committed, self.held = (), committed
        self.has_stepped = True
        return emission.replace(committed=committed)


@breaks("SIL-02")
class RepeatsWordAtSilence(FaultyStream):
    """Commits the last word again at a second start_silence."""

    last: tuple[ASRToken, ...] = ()

    def start_silence(self) -> Emission:
        """Commit it again where there is no new word."""
        emission = super().start_silence()
        if not emission.committed and self.last:
            return emission.replace(committed=self.last)
        self.last = emission.committed[-1:]
        return emission

    def insert_audio_chunk(self, audio: object, end_time: float | None = None) -> None:
        """Drop it."""
        self.last = ()
        self.stream.insert_audio_chunk(audio, end_time)


@breaks("SIL-03")
class AppliesOffset(FaultyStream):
    """Moves the clock by the offset as well."""

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Add it."""
        self.stream.end_silence(max(0.0, seconds + (offset or 0.0)), offset)


@breaks("SIL-03")
class AcceptsAnyDuration(FaultyStream):
    """Accepts a negative or undefined duration as zero."""

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Ignore it."""
        if seconds >= 0:
            self.stream.end_silence(seconds, offset)


@breaks("SIL-04")
class Drifts(FaultyStream):
    """Moves the clock by a tenth of a microsecond too much at each silence."""

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Add it."""
        self.stream.end_silence(seconds + 1e-7 if seconds > 0 else seconds, offset)


@breaks("SIL-05")
class StartsInPause(FaultyStream):
    """Starts a word in the pause before its audio."""

    pause_end: float | None = None

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Note a pause between words."""
        self.stream.end_silence(seconds, offset)
        self.pause_end = -1.0 if self.stream.stats.audio_seconds and seconds else None

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Move the first word after it; no time is reported as stable."""
        if self.pause_end == -1.0 and call != "start_silence":
            self.pause_end = emission.stable_up_to
        tokens = list(emission.committed)
        if tokens and self.pause_end is not None:
            if abs(tokens[0].start - self.pause_end) < 0.01:
                tokens[0] = attrs.evolve(tokens[0], start=tokens[0].start - 0.05)
            self.pause_end = None
        return emission.replace(committed=tuple(tokens), stable_up_to=0.0)


@breaks("SIL-06")
class HasThresholdAtAMinute(FaultyStream):
    """Adds 10 ms to every time after a silence of a minute or more."""

    extra = 0.0

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Note the length."""
        if self.stream.stats.audio_seconds and 60 <= seconds < 3600:
            self.extra = 0.01
        self.stream.end_silence(seconds, offset)

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Move the words."""
        del call
        return emission.replace(
            committed=tuple(
                attrs.evolve(token, start=token.start + self.extra, end=token.end + self.extra)
                for token in emission.committed
            ),
        )


class _AfterTwoSeconds(FaultyStream):
    """Changes the first words after a pause of two seconds."""

    is_next = False

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Note the length."""
        self.stream.end_silence(seconds, offset)
        self.is_next = seconds == 2.0 and self.stream.stats.audio_seconds > 0

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Change the words, once."""
        del call
        if not self.is_next or not emission.committed:
            return emission
        self.is_next = False
        return emission.replace(committed=self.changed(emission.committed))

    def changed(self, tokens: tuple[ASRToken, ...]) -> tuple[ASRToken, ...]:
        """Return the changed words."""
        return tokens


@breaks("SIL-07")
class JoinsWordsOverPause(_AfterTwoSeconds):
    """Loses the space between the words around a pause."""

    def changed(self, tokens: tuple[ASRToken, ...]) -> tuple[ASRToken, ...]:
        """Drop it."""
        return (attrs.evolve(tokens[0], text=tokens[0].text.strip()), *tokens[1:])


@breaks("SIL-07")
class LosesWordAtPause(_AfterTwoSeconds):
    """Loses the word after a pause."""

    def changed(self, tokens: tuple[ASRToken, ...]) -> tuple[ASRToken, ...]:
        """Drop it."""
        return tokens[1:]


@breaks("SIL-07")
class RepeatsWordAtPause(_AfterTwoSeconds):
    """Commits the word after a pause twice."""

    def changed(self, tokens: tuple[ASRToken, ...]) -> tuple[ASRToken, ...]:
        """Commit it twice."""
        first = attrs.evolve(tokens[0], end=tokens[0].start)
        again = attrs.evolve(tokens[0], text=f" {tokens[0].text.strip()}")
        return (first, again, *tokens[1:])
