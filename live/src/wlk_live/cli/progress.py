"""How far recordings are transcribed, how fast, and how long the rest will take."""

from __future__ import annotations

from datetime import timedelta
import time

import attrs

_MIN_SECONDS = 1.0  # of work, before a speed says anything


@attrs.define
class Progress:
    """
    The progress of one recording, or of several that are transcribed at the same time.

    The model can work for seconds on half a minute of audio.  Meanwhile the position goes on at the
    speed so far, up to the end of the audio that the model was given.
    """

    duration: float  #: seconds of audio in all recordings
    _started: float = attrs.field()
    _given: dict[str, float] = attrs.field(factory=dict)  # seconds of audio by recording
    _done: dict[str, float] = attrs.field(factory=dict)
    _changed: float = 0.0  # when `_done` was last changed
    _shown: float = 0.0  # the furthest position so far: a recording never goes back

    @_started.default
    def _now(self) -> float:
        return time.monotonic()

    def give(self, file: str, seconds: float) -> None:
        """Note the audio that the model was given of a recording."""
        self._given[file] = seconds

    def finish(self, file: str, seconds: float) -> None:
        """Note the audio that was transcribed of a recording."""
        self._done[file] = seconds
        self._changed = time.monotonic()

    @property
    def speed(self) -> float | None:
        """Seconds of audio transcribed in a second, None if it is too early to tell."""
        passed, done = self._changed - self._started, sum(self._done.values())
        return done / passed if passed >= _MIN_SECONDS and done else None

    @property
    def position(self) -> float:
        """Seconds of audio that are transcribed by now, as far as can be told."""
        done = sum(self._done.values())
        if self.speed is not None:
            estimate = done + self.speed * (time.monotonic() - self._changed)
            done = max(done, min(estimate, sum(self._given.values()), self.duration))
        self._shown = max(self._shown, done)
        return self._shown

    def text(self) -> str:
        """Return the speed and the time left, such as "  12x, 0:02:10 left"; "" too early."""
        if self.speed is None:
            return ""
        left = max(0.0, self.duration - self.position) / self.speed
        digits = 1 if self.speed < 9.95 else 0  # noqa: PLR2004 -- 9.96 is shown as 10
        return f"  {self.speed:.{digits}f}x, {clock(left)} left"


def clock(seconds: float) -> str:
    """Return seconds as hours, minutes and seconds."""
    return str(timedelta(seconds=int(seconds)))
