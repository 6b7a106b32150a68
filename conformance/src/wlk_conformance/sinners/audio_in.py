"""Sinners against IN."""

from __future__ import annotations

from contextlib import suppress
import threading
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_conformance.sinners.sinner import Sin, sinner
from wlk_core import EPS, SAMPLE_RATE
from wlk_core.errors import AudioFormatError, ClockError

if TYPE_CHECKING:
    from wlk_core import Emission

__all__: list[str] = []


@sinner("IN-01")
class DropsAnOddChunk(Sin):
    """Ignores a chunk of one sample less than a frame."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Ignore it."""
        if getattr(audio, "shape", None) != (159,):
            self.stream.insert_audio_chunk(audio, end_time)


@sinner("IN-02", defects="B38")
class TakesAnyNumber(Sin):
    """Converts int16 and float64 instead of refusing them."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Convert."""
        if isinstance(audio, np.ndarray) and audio.ndim == 1:
            audio = audio.astype(np.float32)
        self.stream.insert_audio_chunk(audio, end_time)


@sinner("IN-02", defects="B38")
class FlattensStereo(Sin):
    """Takes two channels for twice as much of one."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Flatten."""
        if isinstance(audio, np.ndarray) and audio.ndim == 2:  # noqa: PLR2004 -- two axes
            audio = audio.reshape(-1)
        self.stream.insert_audio_chunk(audio, end_time)


@sinner("IN-02", defects="B38")
class TakesNaN(Sin):
    """Takes NaN for silence."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Replace."""
        if isinstance(audio, np.ndarray) and audio.dtype == np.float32 and audio.ndim == 1:
            audio = np.nan_to_num(audio, nan=0.0, posinf=1.0, neginf=-1.0)
        self.stream.insert_audio_chunk(audio, end_time)


@sinner("IN-02")
class HalfRefuses(Sin):
    """Refuses a chunk with infinity in it after its clock has moved."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Move, then refuse."""
        try:
            self.stream.insert_audio_chunk(audio, end_time)
        except AudioFormatError:
            if isinstance(audio, np.ndarray) and np.isinf(audio).any():
                self.stream.insert_audio_chunk(np.zeros(audio.shape, dtype=np.float32))
            raise


class _Clocked(Sin):
    """Keeps the account of samples that a sinner against the clock needs."""

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


@sinner("IN-03")
class BelievesTheCaller(_Clocked):
    """Lets small differences of the caller's clock add up."""

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
        return attrs.evolve(emission, processed_up_to=emission.processed_up_to + self.believed)


@sinner("IN-03")
class DropsAGap(_Clocked):
    """Joins audio over a gap of a few seconds."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Ignore the gap."""
        if EPS < self.off(audio, end_time) < 10:  # noqa: PLR2004 -- seconds
            end_time = None
        self.stream.insert_audio_chunk(audio, end_time)
        self.samples += len(audio)


@sinner("IN-03")
class TakesAnOverlap(Sin):
    """Takes a chunk that overlaps what is there as one that follows it."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Ignore the overlap."""
        try:
            self.stream.insert_audio_chunk(audio, end_time)
        except ClockError:
            self.stream.insert_audio_chunk(audio)


@sinner("IN-04")
class KeepsTheCallersArray(Sin):
    """Keeps the array it is given until the next step."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.kept: list[Any] = []

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Check it by inserting an empty chunk like it, and keep it."""
        if end_time is not None or not isinstance(audio, np.ndarray) or audio.ndim != 1:
            self.stream.insert_audio_chunk(audio, end_time)
            return
        self.stream.insert_audio_chunk(audio if not np.isfinite(audio).all() else audio[:0])
        self.kept.append(audio)

    def _hand_on(self) -> None:
        while self.kept:
            self.stream.insert_audio_chunk(self.kept[0])
            self.kept.pop(0)

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Insert what is kept."""
        self._hand_on()
        return super().process_iter(is_last)

    def start_silence(self) -> Emission:
        """Insert what is kept."""
        self._hand_on()
        return super().start_silence()

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Insert what is kept."""
        self._hand_on()
        self.stream.end_silence(seconds, offset)

    def new_speaker(self, change: Any) -> Emission:
        """Insert what is kept."""
        self._hand_on()
        return super().new_speaker(change)

    def finish(self) -> Emission:
        """Insert what is kept."""
        with suppress(Exception):
            self._hand_on()
        return super().finish()


@sinner("IN-04")
class InsertsUnderTheLockOfTheModel(Sin):
    """Waits with an insert until the step that is running has ended."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.lock = threading.Lock()

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Wait."""
        with self.lock:
            self.stream.insert_audio_chunk(audio, end_time)

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Hold the lock over the step, unless it is held: overlapping calls are refused."""
        if not self.lock.acquire(blocking=False):
            return super().process_iter(is_last)
        try:
            return super().process_iter(is_last)
        finally:
            self.lock.release()


@sinner("IN-05", defects="B01")
class CutsItsBuffer(Sin):
    """Keeps the last 15 s of what comes at once, whether or not the rest was transcribed."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Forget what is before them."""
        limit = 15 * SAMPLE_RATE
        if isinstance(audio, np.ndarray) and audio.ndim == 1 and len(audio) > limit:
            audio = audio.copy()
            audio[:-limit] = 0
        self.stream.insert_audio_chunk(audio, end_time)
