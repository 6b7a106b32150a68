"""Faulty backends that misread rare chunks."""

from __future__ import annotations

from typing import Any

import numpy as np

from faulty_backends.base import CountedStream, violates
from wlk_core import EPS, SAMPLE_RATE, Emission
from wlk_core.errors import AudioFormatError, ClockError

__all__: list[str] = []

MEL_FRAME = 160  # samples


@violates("IN-01", detector="sessions")
class MisreadsStridedArray(CountedStream):
    """Reads the memory of an array as if it were contiguous."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Read it."""
        if isinstance(audio, np.ndarray) and audio.ndim == 1 and audio.strides[0] > 4:
            audio = np.lib.stride_tricks.as_strided(audio, strides=(4,)).copy()
        self.stream.insert_audio_chunk(audio, end_time)


@violates("IN-01", detector="sessions")
class WritesToTheArray(CountedStream):
    """Scales the caller's array in its own memory, which fails where it is read-only."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Multiply it by one."""
        if isinstance(audio, np.ndarray) and audio.dtype == np.float32:
            audio *= np.float32(1.0)
        self.stream.insert_audio_chunk(audio, end_time)


@violates("IN-01", detector="sessions")
class RefusesOneSample(CountedStream):
    """Refuses a chunk of one sample."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Refuse it."""
        if len(audio) == 1:
            raise AudioFormatError("expected more than a sample")
        self.stream.insert_audio_chunk(audio, end_time)


@violates("IN-04", detector="sessions")
class KeepsLargeArray(CountedStream):
    """Keeps the caller's array of a second or more until the next call instead of a copy."""

    waiting: tuple[Any, ...] = ()

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Keep it."""
        self._insert_waiting()
        is_large = isinstance(audio, np.ndarray) and audio.shape >= (SAMPLE_RATE,)
        if is_large and end_time is None and audio.dtype == np.float32:
            self.waiting = (audio,)
        else:
            self.stream.insert_audio_chunk(audio, end_time)

    @property
    def has_backlog(self) -> bool:
        """Whether audio waits here or in the stream."""
        return bool(self.waiting or self.stream.has_backlog)

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Insert what waits first."""
        self._insert_waiting()
        return super().process_iter(is_last)

    def start_silence(self) -> Emission:
        """Insert what waits first."""
        self._insert_waiting()
        return super().start_silence()

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Insert what waits first."""
        self._insert_waiting()
        super().end_silence(seconds, offset)

    def new_speaker(self, change: Any) -> Emission:
        """Insert what waits first."""
        self._insert_waiting()
        return super().new_speaker(change)

    def finish(self) -> Emission:
        """Insert what waits first."""
        self._insert_waiting()
        return super().finish()

    def _insert_waiting(self) -> None:
        waiting, self.waiting = self.waiting, ()
        for audio in waiting:
            self.stream.insert_audio_chunk(audio)


@violates("COM-05", detector="sessions")
class DropsRestOfMelFrame(CountedStream):
    """Feeds its model whole frames of 10 ms of each chunk, and drops the rest."""

    def __init__(self, stream: Any, backend: Any, language: str | None = None) -> None:
        super().__init__(stream, backend, language)
        recognizer = stream._recognizer
        feed = recognizer.feed
        recognizer.feed = lambda audio: feed(audio[: len(audio) // MEL_FRAME * MEL_FRAME])


@violates("IN-03", detector="sessions")
class AcceptsOverlapAfterSilence(CountedStream):
    """Appends a chunk that overlaps the audio before it, once there was a silence."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Leave out a time that is refused."""
        try:
            self.stream.insert_audio_chunk(audio, end_time)
        except ClockError:
            if not self.silences:
                raise
            self.stream.insert_audio_chunk(audio)


@violates("IN-03", detector="sessions")
class DropsShortGap(CountedStream):
    """Joins the audio before and after a gap of less than 0.1 s."""

    clock = 0.0

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Leave out the time of a short gap."""
        if end_time is not None:
            begin = end_time - len(audio) / SAMPLE_RATE
            if EPS + 1e-6 < begin - self._end < 0.1:
                end_time = None
        self.stream.insert_audio_chunk(audio, end_time)

    @property
    def _end(self) -> float:
        return float(self.stream._input._timeline.end)


@violates("SIL-03", detector="sessions")
class AcceptsNegativeSilenceLater(CountedStream):
    """Ignores a negative silence instead of refusing it, after the first flush."""

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Ignore it."""
        if self.flushes and seconds < 0:
            return
        super().end_silence(seconds, offset)


@violates("IN-02", detector="sessions")
class AcceptsNaNInBacklog(CountedStream):
    """Takes a chunk with NaN as zeros where audio waits."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Replace it."""
        if self.stream.has_backlog and isinstance(audio, np.ndarray) and np.isnan(audio).any():
            return
        self.stream.insert_audio_chunk(audio, end_time)
