"""The clock that a stream should keep, by the suite's own account."""

from __future__ import annotations

from fractions import Fraction
import math
import threading

from wlk_core import EPS, SAMPLE_RATE

__all__ = ["ROUNDING", "StreamClock"]

ROUNDING = 1e-6  # seconds: rounding allowed in a clock that counts samples


class StreamClock:
    """
    Count samples and silences exactly; any thread may move and read it.

    The core's own Timeline is not used, because it is a part of what is tested.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.samples = 0  #: of audio inserted
        self._silence = Fraction(0)
        self._pauses: list[tuple[int, Fraction, str]] = []

    @property
    def end(self) -> float:
        """The end of audio and silences, in seconds."""
        with self._lock:
            return float(self._silence + Fraction(self.samples, SAMPLE_RATE))

    @property
    def pauses(self) -> list[tuple[int, float]]:
        """Each silence: the number of samples before it, and its seconds."""
        with self._lock:
            return [(sample, float(seconds)) for sample, seconds, _ in self._pauses]

    def add_audio(self, samples: int) -> None:
        """Move the clock by *samples*; a negative number takes a refused chunk back."""
        with self._lock:
            self.samples += samples

    def add_pause(self, seconds: float, *, rule: str = "SIL-05") -> None:
        """Move the clock by *seconds*, finite and >= 0; a token in the pause breaks *rule*."""
        if seconds <= 0:
            return
        with self._lock:
            self._silence += Fraction(seconds)
            self._pauses.append((self.samples, Fraction(seconds), rule))

    def copy(self) -> StreamClock:
        """Return a clock that shows the same and moves on its own."""
        clock = StreamClock()
        with self._lock:
            clock.samples, clock._silence = self.samples, self._silence
            clock._pauses = list(self._pauses)
        return clock

    def gap_before(self, samples: int, end_time: float | None) -> float:
        """
        Return the silence before a chunk of *samples* that should end at *end_time*.

        It is 0 for a difference of up to EPS, and negative for an overlap beyond it.
        """
        if end_time is None or not math.isfinite(end_time):
            return 0.0
        difference = end_time - (self.end + samples / SAMPLE_RATE)
        return 0.0 if abs(difference) <= EPS + ROUNDING else difference

    def time_of(self, sample: int, *, is_before_pause: bool = False) -> float:
        """Return the stream time of *sample*; where a silence begins, the time before or after."""
        with self._lock:
            silence = sum(
                (
                    seconds
                    for before, seconds, _ in self._pauses
                    if before < sample or (before == sample and not is_before_pause)
                ),
                Fraction(0),
            )
        return float(silence + Fraction(sample, SAMPLE_RATE))

    def pause_crossed(self, start: float, end: float) -> tuple[float, float, str] | None:
        """Return the first silence that a token lies in or across: its start, end and rule."""
        silence = Fraction(0)
        with self._lock:
            pauses = list(self._pauses)
        for sample, seconds, rule in pauses:
            begins = float(silence + Fraction(sample, SAMPLE_RATE))
            silence += seconds
            ends = float(silence + Fraction(sample, SAMPLE_RATE))
            if end > begins + EPS and start < ends - EPS:
                return begins, ends, rule
        return None
