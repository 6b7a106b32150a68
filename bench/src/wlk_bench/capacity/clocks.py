"""The clocks of a measurement: the wall's, or the processor time of this process."""

from __future__ import annotations

from pathlib import Path
import time

import numpy as np

__all__ = ["CpuClock", "machine_cpu_seconds"]

_STAT = Path("/proc/stat")
_READINGS = 200


class CpuClock:
    """
    A clock that the processor time of this process moves; it jumps over the time without work.

    A step that runs alone takes as long on it as on a core of its own, whatever else the machine
    does.  The time of reading the clock is not counted.
    """

    def __init__(self) -> None:
        self.now = 0.0
        readings = [time.process_time() for _ in range(_READINGS)]
        self._cost = float(np.median(np.diff(readings)))
        self._last = time.process_time()

    def __call__(self) -> float:
        """Return the time of the last reading, in seconds."""
        return self.now

    def read(self) -> float:
        """Let the processor time since the last reading pass, and return the time."""
        reading = time.process_time()
        self.now += max(0.0, reading - self._last - self._cost)
        self._last = reading
        return self.now

    def leave_out(self) -> None:
        """Leave out the processor time since the last reading."""
        self._last = time.process_time()

    def skip_to(self, moment: float) -> None:
        """Jump to *moment*, where it lies in the future."""
        self.now = max(self.now, moment)


def machine_cpu_seconds() -> float | None:
    """Return the busy seconds of all cores since the start, None where the system has no file."""
    try:
        fields = _STAT.read_text(encoding="ascii").splitlines()[0].split()[1:]
    except (OSError, IndexError):
        return None
    idle = int(fields[3]) + int(fields[4])
    ticks_per_second = 100  # USER_HZ, the same on every architecture of Linux
    return (sum(int(field) for field in fields[:8]) - idle) / ticks_per_second
