"""The input queue of a stream: audio and silences, in order, and the stream clock."""

from __future__ import annotations

from collections import deque
from fractions import Fraction
import threading
from typing import TYPE_CHECKING, TypeAlias

from wlk_core.audio import ValidAudio, valid_copy
from wlk_core.errors import ClockError, StreamClosed
from wlk_core.processor import EPS, MAX_STREAM_SECONDS, SAMPLE_RATE
from wlk_core.untrusted import real_number, shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ROUNDING = 1e-6  # seconds of error, because callers add up their times in floating point


Item: TypeAlias = ValidAudio | Fraction
"""Audio, or the exact length of a silence in seconds."""


class InputQueue:
    """
    Input that was put in and not yet taken, and the stream clock; never waits for the model.

    Any thread may put; one thread at a time may take.  A silence is a boundary: the audio after it
    belongs to the next utterance.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: deque[tuple[Item, float]] = deque()  # each with the stream time of its end
        self.samples = 0  #: samples of audio put in so far
        self.taken = 0  #: samples taken so far
        self.end = 0.0  #: the stream time of the end of everything put in, in seconds
        self.taken_end = 0.0  #: the stream time of the end of everything taken
        # The clock does not drift, however many silences there are: audio is counted in samples,
        # silences are exact fractions, and their sum is rounded once, when it is read.
        self._silence = Fraction()  # seconds of all silences put in
        self.next: Item | None = None  #: what `take` would return; None if nothing waits
        self.is_closed = False  #: whether all input is refused

    def put_audio(self, audio: NDArray[np.float32], end_time: float | None = None) -> None:
        """Append a copy of *audio*; a gap before it becomes a silence."""
        audio = valid_copy(audio)
        with self._lock:
            if end_time is not None and not self.is_closed:
                self._append(self._gap_before(len(audio) / SAMPLE_RATE, end_time))
            self._append(audio)

    def put_silence(self, seconds: float | Fraction) -> None:
        """Append a silence of exactly *seconds*; 0 appends nothing."""
        number = real_number(seconds)
        if number is None or not 0 <= number <= MAX_STREAM_SECONDS:
            raise ClockError(
                f"expected a silence of 0 to {MAX_STREAM_SECONDS:.0f} s (ten years), "
                f"got {shown(seconds)}"
            )
        with self._lock:
            self._append(seconds if isinstance(seconds, Fraction) else Fraction(number))

    def close(self) -> None:
        """Refuse all input from now on; what waits can still be taken."""
        with self._lock:
            self.is_closed = True

    def reopen(self) -> None:
        """Accept input again, after a finish that failed."""
        with self._lock:
            self.is_closed = False

    def clear(self) -> None:
        """Drop everything that waits."""
        with self._lock:
            self._items.clear()
            self.next = None
            self.taken, self.taken_end = self.samples, self.end

    def take(self) -> Item | None:
        """Remove and return the next item; None if nothing waits."""
        with self._lock:
            if not self._items:
                return None
            item, self.taken_end = self._items.popleft()
            self.next = self._items[0][0] if self._items else None
            self.taken += len(item) if isinstance(item, ValidAudio) else 0
            return item

    def _append(self, item: Item) -> None:
        if self.is_closed:
            raise StreamClosed("the stream is finished or closed; no more audio can be inserted")
        if isinstance(item, Fraction):
            self._silence += item
            is_empty = item == 0
        else:
            self.samples += len(item)
            is_empty = len(item) == 0
        if is_empty:
            return
        # A quotient of two integers is rounded correctly.
        silence = self._silence
        whole = silence.numerator * SAMPLE_RATE + self.samples * silence.denominator
        self.end = whole / (silence.denominator * SAMPLE_RATE)
        self._items.append((item, self.end))
        self.next = self._items[0][0]

    def _gap_before(self, seconds: float, end_time: float) -> Fraction:
        time = real_number(end_time)
        if time is None or not abs(time) <= MAX_STREAM_SECONDS:
            raise ClockError(
                f"expected a stream time in seconds, up to {MAX_STREAM_SECONDS:.0f} (ten years), "
                f"or None, got {shown(end_time)}"
            )
        expected = self.end + seconds
        difference = time - expected
        if difference < -EPS - _ROUNDING:
            raise ClockError(
                f"the chunk was given the end time {time:.3f} s, but by its samples it ends at "
                f"{expected:.3f} s: it would overlap audio already inserted; give the end time "
                "of the chunk on the stream clock, or None"
            )
        return Fraction(difference if difference > EPS + _ROUNDING else 0)
