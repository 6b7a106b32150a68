"""The entrance of a stream and of a session: audio and what lies between, in order."""

from __future__ import annotations

from collections import deque
from enum import Enum
from fractions import Fraction
import math
import threading
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from wlk_core.audio.convert import ValidAudio, sealed, valid_copy
from wlk_core.errors import ClockError, StreamClosed
from wlk_core.processor import EPS, MAX_STREAM_SECONDS, SAMPLE_RATE
from wlk_core.untrusted import real_number, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MAX_PIECE", "Command", "InputQueue", "Item"]

MAX_PIECE = 60 * SAMPLE_RATE  # the longest audio that a session gives to a model at once
_ROUNDING = 1e-6  # seconds: callers sum their own times in floating point


class Command(Enum):
    """What a session is asked for between its audio."""

    COMMIT = "commit"
    END = "end"


Item: TypeAlias = ValidAudio | Fraction | Command | str
"""Audio, a silence in seconds, a request, or the name of a mark in a session."""


class InputQueue:
    """
    What was put in and not taken yet, and the clock of all of it; never waits for the model.

    Audio is validated and copied here, once: what comes from another queue is neither.  Any thread
    may put; one thread at a time takes.  A silence is a boundary: the audio after it belongs to the
    next utterance.  `refusal` is the message for what comes after `shut`.
    """

    def __init__(self, refusal: str) -> None:
        self._refusal = refusal
        self._lock = threading.Lock()
        self._items: deque[Item] = deque()
        self.samples = 0  #: samples of audio put in so far
        self.taken = 0  #: samples taken so far
        self.end = 0.0  #: the stream time of the end of everything put in, in seconds
        # The clock does not drift, however many silences there are: audio is counted in samples,
        # silences are exact fractions, and their sum is rounded once, when it is read.
        self._silence = Fraction()  # seconds of all silences put in ...
        self._taken_silence = Fraction()  # ... and of those taken
        self._commands = 0  # that wait
        self.is_shut = False  #: whether everything is refused

    @property
    def has_items(self) -> bool:
        """Whether something waits to be taken."""
        return bool(self._items)

    @property
    def has_command(self) -> bool:
        """Whether a command waits to be taken."""
        return self._commands > 0

    @property
    def waiting_samples(self) -> int:
        """Samples of audio that wait to be taken."""
        return self.samples - self.taken

    def put_audio(self, audio: NDArray[np.float32], end_time: float | None = None) -> None:
        """
        Append a copy of *audio*; a gap before it becomes a silence.

        Raises:
            AudioFormatError, ClockError: see OnlineProcessor.insert_audio_chunk.
            StreamClosed: the queue is shut.

        """
        audio = valid_copy(audio)
        with self._lock:
            if self.is_shut:
                raise StreamClosed(self._refusal)
            gap = 0.0 if end_time is None else self._gap_before(len(audio), end_time)
            self._check_length(gap + len(audio) / SAMPLE_RATE)
            if gap > 0:
                self._append_silence(Fraction(gap))
            if len(audio):
                self._items.append(audio)
                self.samples += len(audio)
                self.end = _seconds(self.samples, self._silence)

    def put_silence(self, seconds: float | Fraction) -> None:
        """
        Append a silence of exactly *seconds*; zero changes nothing.

        Raises:
            ClockError: *seconds* is negative, infinite, NaN or not a number, or the stream would
                exceed MAX_STREAM_SECONDS.

        """
        number = real_number(seconds)
        if number is None or not 0 <= number < math.inf:
            raise ClockError(f"expected a silence of 0 seconds or more, got {shown(seconds)}")
        with self._lock:
            if self.is_shut:
                raise StreamClosed(self._refusal)
            self._check_length(number)
            if number > 0:
                self._append_silence(seconds if isinstance(seconds, Fraction) else Fraction(number))

    def put(self, item: Command | str) -> None:
        """Append a request or the name of a mark; StreamClosed where the queue is shut."""
        with self._lock:
            if self.is_shut:
                raise StreamClosed(self._refusal)
            self._commands += isinstance(item, Command)
            self._items.append(item)

    def shut(self, *, is_shut: bool = True) -> None:
        """Refuse everything from now on, or accept it again after a finish that failed."""
        with self._lock:
            self.is_shut = is_shut

    def clear(self) -> None:
        """Drop what waits."""
        with self._lock:
            self._items.clear()
            self.taken, self._taken_silence = self.samples, self._silence
            self._commands = 0

    def take(self, *, joins_audio: bool = False) -> Item | None:
        """
        Return the next item, None where nothing waits.

        With `joins_audio` the chunks that follow a chunk directly are joined to it, up to a minute.
        """
        with self._lock:
            if not self._items:
                return None
            item = self._items.popleft()
            self._commands -= isinstance(item, Command)
            if isinstance(item, Fraction):
                self._taken_silence += item
            if not isinstance(item, ValidAudio):
                return item
            chunks, samples = [item], len(item)
            while joins_audio and self._items and isinstance(chunk := self._items[0], ValidAudio):
                if samples + len(chunk) > MAX_PIECE:
                    break
                chunks.append(chunk)
                samples += len(chunk)
                self._items.popleft()
            self.taken += samples
        return item if len(chunks) == 1 else sealed(np.concatenate(chunks))

    @property
    def next(self) -> Item | None:
        """The item that `take` would return, None where nothing waits."""
        return self._items[0] if self._items else None

    def taken_time(self) -> float:
        """Return the stream time of the end of everything taken, silences included."""
        return _seconds(self.taken, self._taken_silence)

    def _gap_before(self, samples: int, end_time: float) -> float:
        time = real_number(end_time)
        if time is None or not math.isfinite(time):
            raise ClockError(f"expected a stream time in seconds or None, got {shown(end_time)}")
        expected = self.end + samples / SAMPLE_RATE
        difference = time - expected
        if difference < -EPS - _ROUNDING:
            raise ClockError(
                f"the chunk was given the end time {time:.3f} s, but by its samples it ends at "
                f"{expected:.3f} s: it would overlap audio already inserted; give the end time "
                "of the chunk on the stream clock, or None"
            )
        return difference if difference > EPS + _ROUNDING else 0.0

    def _check_length(self, seconds: float) -> None:
        if self.end + seconds > MAX_STREAM_SECONDS:
            raise ClockError(
                f"a stream lasts {MAX_STREAM_SECONDS:.0f} s (ten years) at most, and {seconds:g} s "
                f"were to follow {self.end:.3f} s; check the unit, times are seconds"
            )

    def _append_silence(self, seconds: Fraction) -> None:
        self._silence += seconds
        self.end = _seconds(self.samples, self._silence)
        self._items.append(seconds)


def _seconds(samples: int, silence: Fraction) -> float:
    """Return the sum, rounded once: the quotient of two integers is rounded correctly."""
    if not silence:
        return samples / SAMPLE_RATE
    whole = silence.numerator * SAMPLE_RATE + samples * silence.denominator
    return whole / (silence.denominator * SAMPLE_RATE)
