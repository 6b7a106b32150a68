"""Faulty backends whose times are wrong late in a stream, or in rare sessions."""

from __future__ import annotations

from typing import Any

import attrs

from faulty_backends.base import CountedStream, violates
from wlk_core import SAMPLE_RATE, Emission

__all__: list[str] = []

DROPPED = 320  # samples, 20 ms


class _MovingStream(CountedStream):
    """A stream that moves its times by `shift` seconds, and keeps every other promise on them."""

    before = 0.0

    def reset(self) -> None:
        """Forget the last start."""
        self.stream.reset()
        self.before = 0.0

    @property
    def shift(self) -> float:
        """Seconds by which the tokens are moved."""
        return 0.0

    def changed(self, emission: Emission, call: str) -> Emission:
        """Move the tokens, and report nothing as stable."""
        tokens = []
        for token in emission.committed:
            latest = max(token.start, emission.processed_up_to - 0.03)
            start = max(self.before, min(token.start + self.shift, latest), 0.0)
            end = max(start, min(token.end + self.shift, emission.processed_up_to))
            tokens.append(attrs.evolve(token, start=start, end=end))
            self.before = start
        return emission.replace(committed=tuple(tokens), stable_up_to=0.0)


@violates("TIME-05", detector="sessions")
class AllTimesLate(_MovingStream):
    """Reports every word 0.2 s late."""

    @property
    def shift(self) -> float:
        """Always the same."""
        return 0.2


@violates("COM-05", detector="sessions")
class DriftsWithChunks(_MovingStream):
    """Reports times that drift by 10 ms with each chunk."""

    chunks = 0

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Count it."""
        self.stream.insert_audio_chunk(audio, end_time)
        self.chunks += 1

    @property
    def shift(self) -> float:
        """By the number of chunks, half a second at most."""
        return -min(0.5, 0.01 * max(0, self.chunks - 20))


@violates("SIL-05", detector="sessions")
class DropsAudioAtEachFlush(CountedStream):
    """Drops 20 ms of audio at each flush, and corrects its counters."""

    dropped = 0
    is_due = False

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Drop the beginning of the first chunk after a flush."""
        if self.is_due and len(audio) > DROPPED and end_time is None:
            self.is_due = False
            self.dropped += DROPPED
            audio = audio[DROPPED:]
        elif end_time is not None:
            end_time -= self.dropped / SAMPLE_RATE
        self.stream.insert_audio_chunk(audio, end_time)

    def reset(self) -> None:
        """Forget it."""
        self.stream.reset()
        self.dropped, self.is_due = 0, False

    def changed(self, emission: Emission, call: str) -> Emission:
        """Note a flush, and move the reported times."""
        self.is_due = self.is_due or (call not in {"process_iter", "finish"})
        seconds = self.dropped / SAMPLE_RATE
        return emission.replace(processed_up_to=emission.processed_up_to + seconds)

    @property
    def stats(self) -> Any:
        """The counters, with what was dropped."""
        stats = self.stream.stats
        seconds = stats.audio_seconds + self.dropped / SAMPLE_RATE
        return attrs.evolve(stats, audio_seconds=seconds)


@violates("SIL-05", detector="sessions")
class RoundsTimesAfterAnHour(_MovingStream):
    """Reports whole seconds once the clock is past an hour."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Round the starts down."""
        emission = super().changed(emission, call)
        tokens = [
            token if token.start < 3600 else attrs.evolve(token, start=token.start // 1)
            for token in emission.committed
        ]
        return emission.replace(committed=tuple(tokens))


@violates("TIME-03", detector="sessions")
class StableGoesBack(CountedStream):
    """Reports an earlier stable time at the third flush."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Halve it."""
        if self.flushes != 3 or call == "process_iter":
            return emission
        return emission.replace(stable_up_to=emission.stable_up_to / 2)


@violates("TIME-03", detector="sessions")
class CountsBacklogAsProcessed(CountedStream):
    """Reports audio that waits as processed where more than ten seconds do, and takes it back."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Report the end of the audio."""
        seconds = self.stream.stats.audio_seconds
        if call == "process_iter" and seconds - emission.processed_up_to > 10:
            return emission.replace(processed_up_to=seconds)
        return emission


@violates("SIL-05", detector="sessions")
class StartsInSecondPause(_MovingStream):
    """Starts the first word after the second pause, or a later one, a tenth of a second early."""

    is_due = False

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Note it."""
        super().end_silence(seconds, offset)
        self.is_due = self.silences >= 2 and seconds > 0.3

    def changed(self, emission: Emission, call: str) -> Emission:
        """Move the first token."""
        if not self.is_due or not emission.committed:
            return emission.replace(stable_up_to=0.0)
        self.is_due = False
        first, *rest = emission.committed
        early = attrs.evolve(first, start=max(self.before, first.start - 0.1))
        return emission.replace(committed=(early, *rest), stable_up_to=0.0)
