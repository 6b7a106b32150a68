"""Faulty backends that break TIME."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from faulty_backends.base import FaultyStream, breaks

if TYPE_CHECKING:
    from wlk_core import ASRToken, Emission

__all__: list[str] = []


@breaks("TIME-01")
class EndsAfterAudio(FaultyStream):
    """Ends the last word before a turn after the end of the audio."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Pad its end."""
        if call != "new_speaker" or not emission.committed:
            return emission
        last = attrs.evolve(emission.committed[-1], end=emission.processed_up_to + 0.05)
        return emission.replace(committed=(*emission.committed[:-1], last))


@breaks("TIME-02")
class GoesBackAfterLongPause(FaultyStream):
    """Starts the first word after a minute of silence before the last word."""

    last_start = 0.0
    is_back = False

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Note the length."""
        self.stream.end_silence(seconds, offset)
        self.is_back = 60.5 < seconds < 62

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Move one word; no time is reported as stable, so that no other rule is broken."""
        del call
        tokens = list(emission.committed)
        if tokens and self.is_back:
            tokens[0] = attrs.evolve(tokens[0], start=self.last_start - 0.1)
            self.is_back = False
        if tokens:
            self.last_start = tokens[-1].start
        return emission.replace(committed=tuple(tokens), stable_up_to=0.0)


@breaks("TIME-03")
class ReportsEverythingStable(FaultyStream):
    """Reports all processed audio as stable, words held back included."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Report it."""
        del call
        return emission.replace(stable_up_to=emission.processed_up_to)


@breaks("TIME-03")
class ProcessedTimeGoesBack(FaultyStream):
    """Reports less processed audio at a turn than before it."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Report a second less."""
        if call != "new_speaker" or emission.processed_up_to < 5:
            return emission
        return emission.replace(processed_up_to=emission.processed_up_to - 3.0)


@breaks("TIME-03")
class HidesLongBacklog(FaultyStream):
    """Reports no backlog while more than four seconds of audio wait."""

    processed = 0.0

    @property
    def has_backlog(self) -> bool:
        """Hide the backlog, so that a caller stops too early."""
        waiting = self.stream.stats.audio_seconds - self.processed
        return bool(self.stream.has_backlog) and waiting < 4.0

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Note the time."""
        del call
        self.processed = emission.processed_up_to
        return emission


@breaks("TIME-04")
class HasThresholdAtFiveSeconds(FaultyStream):
    """Adds 10 ms to every time after a leading silence of five seconds."""

    extra = 0.0

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Note the length."""
        if not self.stream.stats.audio_seconds and seconds == 5.0:
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


@breaks("TIME-05")
class SpreadsWords(FaultyStream):
    """Stretches a word into the second of quiet before it."""

    last: ASRToken | None = None

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Start words after a quiet stretch early; no time is reported as stable."""
        del call
        tokens = []
        for token in emission.committed:
            is_after_quiet = self.last is not None and 1.0 < token.start - self.last.end < 2.0
            self.last = token
            tokens.append(
                attrs.evolve(token, start=token.start - 0.15) if is_after_quiet else token
            )
        return emission.replace(committed=tuple(tokens), stable_up_to=0.0)
