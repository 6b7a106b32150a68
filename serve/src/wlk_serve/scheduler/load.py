"""How late the steps of a scheduler end: the measurement that admission stands on."""

from __future__ import annotations

from collections import deque

import numpy as np

__all__ = ["Load"]

_MAX_STEPS = 4096  # newest steps that are kept, which bounds memory


class Load:
    """
    The lateness of the steps that ended within the last `window_seconds`.

    Lateness is the end of a step minus its deadline, in seconds; negative where it ended in time.
    There is no clock in here: every call carries the current time.
    """

    def __init__(self, window_seconds: float = 10.0, *, min_steps: int = 20) -> None:
        self._window = window_seconds
        self._min_steps = min_steps
        self._steps: deque[tuple[float, float]] = deque(maxlen=_MAX_STEPS)

    def add(self, now: float, lateness: float) -> None:
        """Count a step that ended at *now*."""
        self._steps.append((now, lateness))

    def p99(self, now: float) -> float | None:
        """Return the 99th percentile in seconds, None for fewer than `min_steps` steps."""
        while self._steps and self._steps[0][0] < now - self._window:
            self._steps.popleft()
        if len(self._steps) < self._min_steps:
            return None
        return float(np.percentile([lateness for _, lateness in self._steps], 99))
