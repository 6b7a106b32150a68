"""When audio is due, which session is stepped next, and how late the steps end."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
import heapq
import math
from typing import Generic, TypeVar

import attrs
import numpy as np

__all__ = ["DeadlineQueue", "DueTimes", "Load", "Turn"]

K = TypeVar("K", bound=Hashable)

_HALF_A_SAMPLE = 0.5 / 16_000  # seconds; sums of durations are rounded by much less
_MAX_STEPS = 4096  # newest steps whose lateness is kept, which bounds memory
_GRAIN_SECONDS = 0.05  # chunks that arrive within it share an arrival time, which bounds memory


class DueTimes:
    """
    When the waiting audio of a session is due, by the clock of the caller.

    Audio is due when it arrives.  Audio that is sent faster than it is spoken is due when it would
    have been spoken, `burst_seconds` earlier at most; so a recording that is sent at once takes no
    time from the sessions beside it.  A stall of the source earns the same burst, and no more.

    All times are seconds.  There is no clock in here: every call carries the current time.
    """

    def __init__(self, burst_seconds: float) -> None:
        self._burst = burst_seconds
        self._origin = -math.inf  # when the first second of audio was spoken, less the burst
        self._received = 0.0  # seconds of audio so far
        self._arrivals: deque[tuple[float, float]] = deque()  # end of the audio, its arrival

    def receive(self, now: float, seconds: float) -> None:
        """Count *seconds* of audio, 0 for a command, that arrived at *now*."""
        self._origin = max(self._origin, now - self._received - self._burst)
        self._received += seconds
        if self._arrivals and now - self._arrivals[-1][1] < _GRAIN_SECONDS:
            now = self._arrivals.pop()[1]
        self._arrivals.append((self._received, now))

    def due(self, waiting: float) -> float:
        """Return when the oldest of *waiting* seconds of audio is due; `receive` came before."""
        taken = self._received - waiting + _HALF_A_SAMPLE
        while len(self._arrivals) > 1 and self._arrivals[0][0] <= taken:
            self._arrivals.popleft()
        return max(self._arrivals[0][1], self._origin + taken - _HALF_A_SAMPLE)


@attrs.frozen
class Turn(Generic[K]):
    """A key that was taken from the queue, and its deadline."""

    key: K
    deadline: float


class DeadlineQueue(Generic[K]):
    """
    Keys in the order of their deadlines; a key that was taken comes again only after `release`.

    A key with a lead comes as if its deadline were so many seconds earlier.  Keys that are equal in
    this come in the order in which they were put.  Not thread-safe.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Turn[K]]] = []  # deadline less the lead, number
        self._leads: dict[K, float] = {}  # of the keys that wait
        self._taken: set[K] = set()
        self._count = 0

    def __len__(self) -> int:
        """Count the keys that wait."""
        return len(self._leads)

    def __contains__(self, key: K) -> bool:
        """Return whether *key* waits."""
        return key in self._leads

    def is_taken(self, key: K) -> bool:
        """Return whether *key* was taken and not released."""
        return key in self._taken

    def put(self, key: K, deadline: float, *, lead: float = 0.0) -> bool:
        """Let *key* wait, unless it does or is taken; return whether it was put."""
        if key in self._leads or key in self._taken:
            return False
        self._count += 1
        self._leads[key] = lead
        heapq.heappush(self._heap, (deadline - lead, self._count, Turn(key, deadline)))
        return True

    def advance(self, key: K, lead: float) -> None:
        """Give *key*, if it waits, a lead of at least *lead* seconds, in O(keys)."""
        if self._leads.get(key, math.inf) < lead:
            turn = next(turn for _, _, turn in self._heap if turn.key == key)
            self.remove(key)
            self.put(key, turn.deadline, lead=lead)

    def take(self) -> Turn[K] | None:
        """Return the key with the earliest deadline, None where no key waits."""
        if not self._heap:
            return None
        _, _, turn = heapq.heappop(self._heap)
        del self._leads[turn.key]
        self._taken.add(turn.key)
        return turn

    def release(self, key: K) -> None:
        """Allow *key* to wait again."""
        self._taken.discard(key)

    def remove(self, key: K) -> None:
        """Drop *key* if it waits, in O(keys); one that is taken stays so until it is released."""
        if self._leads.pop(key, None) is not None:
            self._heap = [entry for entry in self._heap if entry[2].key != key]
            heapq.heapify(self._heap)


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
