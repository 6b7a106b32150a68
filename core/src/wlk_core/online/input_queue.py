"""Audio and silences that a stream was given and its recognizer was not, in order."""

from __future__ import annotations

from collections import deque
import math
import threading
from typing import TYPE_CHECKING

import numpy as np

from wlk_core.audio.convert import validate_audio
from wlk_core.errors import ClockError, StreamClosed
from wlk_core.processor import EPS, MAX_STREAM_SECONDS, SAMPLE_RATE
from wlk_core.streaming.timeline import Timeline
from wlk_core.untrusted import real_number, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["InputQueue"]

_ROUNDING = 1e-6  # seconds: callers sum their own times in floating point


class InputQueue:
    """
    The entrance of a stream: checks audio, keeps the clock, never waits for the model.

    Any thread may put; one thread at a time takes.  A silence is a boundary: the audio after it
    belongs to the next utterance.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._timeline = Timeline(SAMPLE_RATE)
        self._items: deque[NDArray[np.float32] | float] = deque()
        self._taken = 0  # samples taken so far
        self._waiting = 0  # samples put and not taken yet
        self._is_shut = False

    @property
    def has_items(self) -> bool:
        """Whether audio or a silence waits to be taken."""
        return bool(self._items)

    @property
    def samples(self) -> int:
        """Samples of audio put in so far."""
        return self._timeline.samples

    @property
    def nbytes(self) -> int:
        """Bytes of audio waiting here."""
        return 4 * self._waiting

    def put_audio(self, audio: NDArray[np.float32], end_time: float | None) -> None:
        """
        Append a copy of *audio*; a gap before it becomes a silence.

        Raises:
            AudioFormatError, ClockError: see OnlineProcessor.insert_audio_chunk.
            StreamClosed: the queue is shut.

        """
        validate_audio(audio)
        with self._lock:
            if self._is_shut:
                raise StreamClosed("the stream is being finished; no more audio can be inserted")
            gap = self._gap_before(len(audio), end_time)
            self._check_length(gap + len(audio) / SAMPLE_RATE)
            if gap > 0:
                self._put_silence(gap)
            if len(audio):
                self._items.append(np.array(audio))  # a plain array, whatever the caller's class
                self._timeline.append_audio(len(audio))
                self._waiting += len(audio)

    def shut(self, *, is_shut: bool) -> None:
        """Refuse audio from now on, or accept it again after a finish that failed."""
        with self._lock:
            self._is_shut = is_shut

    def put_silence(self, seconds: float) -> None:
        """
        Append a silence of exactly *seconds*; zero changes nothing.

        Raises:
            ClockError: *seconds* is negative, infinite, NaN or not a number, or the stream would
                exceed MAX_STREAM_SECONDS.

        """
        number = real_number(seconds)
        if number is None:
            raise ClockError(f"expected a silence in seconds, got {shown(seconds)}")
        if not math.isfinite(number) or number < 0:
            raise ClockError(f"a silence lasts 0 seconds or more, got {shown(seconds)}")
        with self._lock:
            self._check_length(number)
            if number > 0:
                self._put_silence(number)

    def take_audio(self, until: int, consume: Callable[[NDArray[np.float32]], None]) -> None:
        """
        Hand audio to *consume* up to the next silence, to sample number *until* or to the end.

        An array on which *consume* raises stays in the queue, so that no audio is lost.
        """
        while self._items and self._taken < until:
            audio = self._items[0]
            if isinstance(audio, float):
                return
            consume(audio)
            with self._lock:
                self._items.popleft()
                self._taken += len(audio)
                self._waiting -= len(audio)

    def at_silence(self) -> bool:
        """Return whether a silence is next in line."""
        return bool(self._items) and isinstance(self._items[0], float)

    def take_silence(self) -> None:
        """Pass the silence that is next in line."""
        with self._lock:
            self._items.popleft()

    def taken_time(self) -> float:
        """Return the stream time of the end of everything taken, silences included."""
        with self._lock:
            self._timeline.forget_before(self._taken)
            return self._timeline.time_of(self._taken, before_silence=self.at_silence())

    def _gap_before(self, samples: int, end_time: float | None) -> float:
        if end_time is None:
            return 0.0
        time = real_number(end_time)
        if time is None or not math.isfinite(time):
            raise ClockError(f"expected a stream time in seconds or None, got {shown(end_time)}")
        expected = self._timeline.end + samples / SAMPLE_RATE
        difference = time - expected
        if difference < -EPS - _ROUNDING:
            raise ClockError(
                f"the chunk was given the end time {time:.3f} s, but by its samples it ends at "
                f"{expected:.3f} s: it would overlap audio already inserted; give the end time "
                "of the chunk on the stream clock, or None"
            )
        return difference if difference > EPS + _ROUNDING else 0.0

    def _check_length(self, seconds: float) -> None:
        """Refuse what would move the clock beyond MAX_STREAM_SECONDS."""
        if self._timeline.end + seconds > MAX_STREAM_SECONDS:
            raise ClockError(
                f"a stream lasts {MAX_STREAM_SECONDS:.0f} s (ten years) at most, and {seconds:g} s "
                f"were to follow {self._timeline.end:.3f} s; check the unit, times are seconds"
            )

    def _put_silence(self, seconds: float) -> None:
        self._timeline.append_silence(seconds)
        self._items.append(seconds)
