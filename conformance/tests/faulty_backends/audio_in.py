"""Faulty backends that break IN."""

from __future__ import annotations

from contextlib import suppress
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from faulty_backends.base import FaultyStream, breaks
from wlk_core import EPS, SAMPLE_RATE
from wlk_core.audio import validate_audio
from wlk_core.errors import AudioFormatError, ClockError

if TYPE_CHECKING:
    from wlk_core import Emission

__all__: list[str] = []


@breaks("IN-01")
class DropsOddChunk(FaultyStream):
    """Drops a chunk of one sample less than a mel frame."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Ignore it."""
        if getattr(audio, "shape", None) != (159,):
            self.stream.insert_audio_chunk(audio, end_time)


@breaks("IN-02")
class AcceptsAnyDtype(FaultyStream):
    """Converts int16 and float64 instead of refusing them."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Convert."""
        if isinstance(audio, np.ndarray) and audio.ndim == 1:
            audio = audio.astype(np.float32)
        self.stream.insert_audio_chunk(audio, end_time)


@breaks("IN-02")
class FlattensStereo(FaultyStream):
    """Flattens two channels into one of twice the length."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Flatten."""
        if isinstance(audio, np.ndarray) and audio.ndim == 2:
            audio = audio.reshape(-1)
        self.stream.insert_audio_chunk(audio, end_time)


@breaks("IN-02")
class AcceptsNaN(FaultyStream):
    """Replaces NaN by zero."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Replace."""
        if isinstance(audio, np.ndarray) and audio.dtype == np.float32 and audio.ndim == 1:
            audio = np.nan_to_num(audio, nan=0.0, posinf=1.0, neginf=-1.0)
        self.stream.insert_audio_chunk(audio, end_time)


@breaks("IN-02")
class ClipsLoudSamples(FaultyStream):
    """Clips samples that no sound can have."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Clip."""
        if isinstance(audio, np.ndarray) and audio.dtype == np.float32 and audio.ndim == 1:
            audio = np.where(np.isfinite(audio), np.clip(audio, -1, 1), audio)
        self.stream.insert_audio_chunk(audio, end_time)


@breaks("IN-02")
class MovesClockBeforeRefusing(FaultyStream):
    """Refuses a chunk with infinity after its clock has moved."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Move, then refuse."""
        try:
            self.stream.insert_audio_chunk(audio, end_time)
        except AudioFormatError:
            if isinstance(audio, np.ndarray) and np.isinf(audio).any():
                self.stream.insert_audio_chunk(np.zeros(audio.shape, dtype=np.float32))
            raise


class _SampleCounting(FaultyStream):
    """Counts samples and silences, as a fault of the clock needs."""

    samples = 0
    silence = 0.0

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Count it."""
        self.stream.end_silence(seconds, offset)
        self.silence += seconds

    def off(self, audio: Any, end_time: float | None) -> float:
        """Return how far the caller's clock is ahead."""
        if end_time is None:
            return 0.0
        return end_time - self.silence - (self.samples + len(audio)) / SAMPLE_RATE


@breaks("IN-03")
class TrustsCallersClock(_SampleCounting):
    """Adds up small differences of the caller's clock."""

    believed = 0.0

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Add the difference up."""
        off = self.off(audio, end_time)
        self.stream.insert_audio_chunk(audio, end_time)
        self.samples += len(audio)
        if 0 < off <= EPS:
            self.believed += off

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Report by the caller's clock."""
        del call
        return emission.replace(processed_up_to=emission.processed_up_to + self.believed)


@breaks("IN-03")
class DropsGap(_SampleCounting):
    """Joins the audio before and after a gap of a few seconds."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Ignore the gap."""
        if EPS < self.off(audio, end_time) < 10:
            end_time = None
        self.stream.insert_audio_chunk(audio, end_time)
        self.samples += len(audio)


@breaks("IN-03")
class AcceptsOverlap(FaultyStream):
    """Appends a chunk that overlaps the audio before it."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Ignore the overlap."""
        try:
            self.stream.insert_audio_chunk(audio, end_time)
        except ClockError:
            self.stream.insert_audio_chunk(audio)


@breaks("IN-04")
class KeepsCallersArray(FaultyStream):
    """Keeps the caller's array until the next step instead of a copy."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.kept: list[Any] = []

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Check it by inserting an empty chunk of its kind, and keep it."""
        if end_time is not None or not isinstance(audio, np.ndarray) or audio.ndim != 1:
            self.stream.insert_audio_chunk(audio, end_time)
            return
        validate_audio(audio)
        self.stream.insert_audio_chunk(audio[:0])
        self.kept.append(audio)

    @property
    def has_backlog(self) -> bool:
        """Count the arrays that are kept."""
        return bool(self.kept) or bool(self.stream.has_backlog)

    def _insert_kept(self) -> None:
        while self.kept:
            self.stream.insert_audio_chunk(self.kept[0])
            self.kept.pop(0)

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Insert the arrays that are kept."""
        self._insert_kept()
        return super().process_iter(is_last)

    def start_silence(self) -> Emission:
        """Insert the arrays that are kept."""
        self._insert_kept()
        return super().start_silence()

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Insert the arrays that are kept."""
        self._insert_kept()
        self.stream.end_silence(seconds, offset)

    def new_speaker(self, change: Any) -> Emission:
        """Insert the arrays that are kept."""
        self._insert_kept()
        return super().new_speaker(change)

    def finish(self) -> Emission:
        """Insert the arrays that are kept."""
        with suppress(Exception):
            self._insert_kept()
        return super().finish()


@breaks("IN-04")
class InsertWaitsForStep(FaultyStream):
    """Makes an insert wait for the end of a running step."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.lock = threading.Lock()

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Wait."""
        with self.lock:
            self.stream.insert_audio_chunk(audio, end_time)

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Hold the lock during the step; an overlapping call is refused without it."""
        if not self.lock.acquire(blocking=False):
            return super().process_iter(is_last)
        try:
            return super().process_iter(is_last)
        finally:
            self.lock.release()


@breaks("IN-05")
class CutsItsBuffer(FaultyStream):
    """Keeps the last 15 s of one insert and drops the rest before it is transcribed."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Set the audio before them to zero."""
        limit = 15 * SAMPLE_RATE
        if isinstance(audio, np.ndarray) and audio.ndim == 1 and len(audio) > limit:
            audio = audio.copy()
            audio[:-limit] = 0
        self.stream.insert_audio_chunk(audio, end_time)
