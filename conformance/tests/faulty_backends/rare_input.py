"""Faults that show on rare audio, pauses and turns only."""

from __future__ import annotations

from typing import Any

import numpy as np

from faulty_backends.base import CountedStream, FaultyBackend, edited, violates
from wlk_core import ASRToken, Emission

__all__: list[str] = []


@violates("COM-06", detector="sessions")
class StartsShortRestInFuture(CountedStream):
    """Starts a word that is flushed within 50 ms of its end at the end of the audio."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Move it."""
        end = emission.processed_up_to
        if (
            call == "process_iter"
            or not emission.committed
            or emission.committed[-1].end < end - 0.05
        ):
            return emission
        return edited(emission, -1, start=end, end=end)


@violates("COM-03", detector="sessions")
class SpacesFirstWordAfterFlush(CountedStream):
    """Puts a space between two words with a flush between them, in scripts without spaces too."""

    is_due = False

    def changed(self, emission: Emission, call: str) -> Emission:
        """Put it there."""
        is_due = self.is_due and self.words > 0 and bool(emission.committed)
        self.is_due = call != "process_iter" or (self.is_due and not emission.committed)
        if not is_due or emission.committed[0].text.startswith(" "):
            return emission
        return edited(emission, 0, text=f" {emission.committed[0].text}")


@violates("IN-05")
class LosesWordOfHugeChunk(CountedStream):
    """Loses the first word of a chunk of more than fifty seconds."""

    is_due = False

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Note the length."""
        self.stream.insert_audio_chunk(audio, end_time)
        self.is_due = self.is_due or len(audio) > 800_000

    def changed(self, emission: Emission, call: str) -> Emission:
        """Drop the word."""
        if not self.is_due or not emission.committed:
            return emission
        self.is_due = False
        return emission.replace(committed=emission.committed[1:])


@violates("LIFE-02")
class FinishLosesWordAtTheEnd(CountedStream):
    """Drops the last word of finish where no more than a frame of audio follows it."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Drop it."""
        is_last = call == "finish" and emission.committed
        if not is_last or emission.committed[-1].end < emission.processed_up_to - 0.08:
            return emission
        return emission.replace(committed=emission.committed[:-1])


@violates("SIL-01")
class SilenceLosesWordAtTheEnd(CountedStream):
    """Drops the last word of start_silence where no audio follows it."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Drop it."""
        is_last = call == "start_silence" and emission.committed
        if not is_last or emission.committed[-1].end < emission.processed_up_to - 0.01:
            return emission
        return emission.replace(committed=emission.committed[:-1])


@violates("SIL-02")
class RepeatsWordAfterPauseWithoutAudio(CountedStream):
    """Commits the last word again at a start_silence that follows an end_silence directly."""

    last: tuple[ASRToken, ...] = ()
    was_silent = False

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Note that there is audio."""
        self.stream.insert_audio_chunk(audio, end_time)
        self.was_silent = self.was_silent and not len(audio)

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Note the pause."""
        super().end_silence(seconds, offset)
        self.was_silent = True

    def changed(self, emission: Emission, call: str) -> Emission:
        """Repeat it."""
        self.last = emission.committed[-1:] or self.last
        if call != "start_silence" or not self.was_silent:
            return emission
        return emission.replace(committed=self.last)


@violates("SIL-04")
class RoundsSilencesToMilliseconds(CountedStream):
    """Moves the clock by whole milliseconds."""

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Round."""
        super().end_silence(round(seconds, 3), offset)


class _PausedStream(CountedStream):
    """A stream that knows the length of the last pause between words."""

    pause = 0.0

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Note it."""
        super().end_silence(seconds, offset)
        self.pause = seconds if self.words else 0.0

    def reset(self) -> None:
        """Forget it."""
        super().reset()
        self.pause = 0.0


@violates("SIL-06")
class JoinsWordsOverShortPause(_PausedStream):
    """Takes a pause of less than a fifth of a second for none, and joins the words around it."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Join them."""
        if not 0 < self.pause < 0.2 or not emission.committed:
            return emission
        self.pause = 0.0
        return edited(emission, 0, text=emission.committed[0].text.strip())


@violates("SIL-06")
class BeginsSentenceAfterFiveSeconds(_PausedStream):
    """Writes the first word after a pause of five seconds or more in title case."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Write it."""
        if self.pause < 5 or not emission.committed:
            return emission
        self.pause = 0.0
        return edited(emission, 0, text=emission.committed[0].text.title())


class _LedStream(CountedStream):
    """A stream that knows the silence before its first audio."""

    lead = 0.0

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Note it."""
        if not self.stream.stats.audio_seconds:
            self.lead += seconds
        super().end_silence(seconds, offset)

    def reset(self) -> None:
        """Forget it."""
        super().reset()
        self.lead = 0.0


@violates("TIME-04")
class LosesWordAfterHourOfLead(_LedStream):
    """Loses the first word of a stream that begins with an hour of silence."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Drop it."""
        if self.lead < 3600 or self.words:
            return emission
        return emission.replace(committed=emission.committed[1:])


@violates("TIME-04")
class TakesShortLeadForAudio(_LedStream):
    """Starts the first word early by a leading silence of less than a second."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Move it; no time is reported as stable."""
        emission = emission.replace(stable_up_to=0.0)
        if not 0 < self.lead < 1 or self.words or not emission.committed:
            return emission
        return edited(emission, 0, start=emission.committed[0].start - self.lead)


@violates("TIME-02", detector="sessions")
class SwapsStartsOfBurst(CountedStream):
    """Exchanges the times of the first two words where more than three are committed at once."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Exchange them; no time is reported as stable."""
        emission = emission.replace(stable_up_to=0.0)
        if len(emission.committed) <= 3:
            return emission
        first, second = emission.committed[:2]
        emission = edited(emission, 0, start=second.start, end=second.end)
        return edited(emission, 1, start=first.start, end=first.end)


@violates("SPK-01")
class LosesAudioAfterTurn(CountedStream):
    """Drops the words that start after the time of a turn and were already inserted."""

    def new_speaker(self, change: Any) -> Emission:
        """Drop them."""
        emission = super().new_speaker(change)
        kept = [token for token in emission.committed if token.start < change.start]
        return emission.replace(committed=tuple(kept))


@violates("ISO-05")
class LanguageOfTheOtherCaller(CountedStream):
    """Reports the language of the stream that was called before, where that is another one."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Report it."""
        before = self.backend.marks.get("language", self.language)
        self.backend.marks["language"] = self.language
        for index in range(len(emission.committed)):
            emission = edited(emission, index, detected_language=before or "en")
        return emission


class _InventingStream(CountedStream):
    """A stream that commits thanks at the end of half a minute of a kind of audio."""

    def __init__(self, stream: Any, backend: FaultyBackend, language: str | None = None) -> None:
        super().__init__(stream, backend, language)
        self.level = 0.0

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Note how loud it is."""
        self.stream.insert_audio_chunk(audio, end_time)
        if len(audio):
            self.level = max(self.level, float(np.abs(audio).max()))

    def is_deceived(self) -> bool:
        """Return whether it takes its audio for words."""
        return False

    def changed(self, emission: Emission, call: str) -> Emission:
        """Commit thanks."""
        is_due = call == "finish" and not self.words and self.stream.stats.audio_seconds > 25
        if not is_due or not self.is_deceived():
            return emission
        return emission.replace(committed=(ASRToken(1.0, 1.5, "Thank you.", 1.0, None, "en"),))


@violates("QUAL-02", tiers=("speech",))
class InventsWordsInLowNoise(_InventingStream):
    """Commits thanks in half a minute of noise that is hardly audible."""

    def is_deceived(self) -> bool:
        """By low noise."""
        return 0 < self.level < 0.05


@violates("QUAL-02", tiers=("speech",))
class InventsWordsInTones(_InventingStream):
    """Commits thanks in half a minute of tones."""

    def is_deceived(self) -> bool:
        """By what is loud."""
        return self.level >= 0.05
