"""The steps of one replica as a queue, without sessions: when each chunk is done."""

from __future__ import annotations

from collections import deque
import heapq
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wlk_bench.capacity.service_times import ServiceTimes

__all__ = ["StepQueue"]

_Chunk = tuple[float, int, float, float]  # deadline, number, arrival, cost


class StepQueue:
    """
    Chunks in the order of their deadlines, on the workers of a replica.

    The order is that of the scheduler's `DeadlineQueue`: the earliest deadline first, a step that
    runs is never interrupted, equal deadlines in the order of their arrival.  A session whose next
    chunk arrived while one is decoded may be on two workers here, which the scheduler prevents; so
    figures of replicas that fall back by more than a chunk are estimates.

    Times are seconds of one clock.  Call `add` with chunks that arrive after those before, and
    `advance` to make the steps that start by then.
    """

    def __init__(self, service: ServiceTimes) -> None:
        self._workers = service.workers
        self._is_batching = service.is_batching
        self._means = service.means(service.workers)
        self._full = self._means[-1] or 1.0  # the mean cost with all workers busy
        self._free = [0.0] * (1 if service.is_batching else service.workers)  # a heap
        # Arrivals, deadlines and costs of the chunks that were not started, by their arrival.
        self._chunks = np.empty((3, 0))
        self.busy_seconds = 0.0  #: of all workers, of the steps that were started

    def __len__(self) -> int:
        """Count the chunks that were not started."""
        return self._chunks.shape[1]

    def add(
        self,
        arrivals: NDArray[np.float64],
        deadlines: NDArray[np.float64],
        costs: NDArray[np.float64],
    ) -> None:
        """Let chunks arrive, in any order among themselves."""
        chunks = np.concatenate([self._chunks, [arrivals, deadlines, costs]], axis=1)
        self._chunks = chunks[:, np.lexsort((chunks[1], chunks[0]))]

    def advance(self, until: float = np.inf) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """
        Make the steps that start before *until*; return their delays and their latenesses.

        Seconds from the arrival of each chunk until it was done, and from its deadline.
        """
        count = int(np.searchsorted(self._chunks[0], until))
        is_in_order = bool(np.all(np.diff(self._chunks[1, :count]) >= 0))
        if self._is_batching or not is_in_order:
            return self._advance_by_deadlines(until)
        # Nothing overtakes: the order is that of the arrivals, which needs no heap of deadlines.
        advance = self._advance_alone if self._workers == 1 else self._advance_in_order
        chunks, self._chunks = self._chunks[:, :count], self._chunks[:, count:]
        ends = advance(chunks, until)
        self._chunks = np.concatenate([chunks[:, len(ends) :], self._chunks], axis=1)
        return ends - chunks[0, : len(ends)], ends - chunks[1, : len(ends)]

    def _advance_alone(self, chunks: NDArray[np.float64], until: float) -> NDArray[np.float64]:
        """Return the ends of steps on one worker: each starts when the one before has ended."""
        arrivals, _, costs = chunks
        total = np.cumsum(costs)
        # A step ends when all since the last idle moment have: Lindley's recursion as a maximum.
        idle = np.maximum.accumulate(np.maximum(arrivals, self._free[0]) - (total - costs))
        ends: NDArray[np.float64] = idle + total
        ends = ends[: int(np.searchsorted(ends - costs, until))]
        if len(ends):
            self._free = [float(ends[-1])]
            self.busy_seconds += float(total[len(ends) - 1])
        return ends

    def _advance_in_order(self, chunks: NDArray[np.float64], until: float) -> NDArray[np.float64]:
        """Return the ends of steps on several workers, in the order of the arrivals."""
        ends = []
        for arrival, cost in zip(chunks[0].tolist(), chunks[2].tolist(), strict=True):
            start = max(self._free[0], arrival)
            if start >= until:
                break
            ends.append(self._run(start, cost))
        return np.array(ends)

    def _advance_by_deadlines(
        self, until: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        done: list[tuple[float, _Chunk]] = []
        ready: list[_Chunk] = []
        coming = deque(enumerate(zip(*self._chunks.tolist(), strict=True)))
        now = 0.0
        while ready or coming:
            start = max(self._free[0], now if ready else coming[0][1][0])
            if start >= until:
                break
            now = start
            while coming and coming[0][1][0] <= now:
                number, (arrival, deadline, cost) = coming.popleft()
                heapq.heappush(ready, (deadline, number, arrival, cost))
            done += self._step(now, ready)
        left = [*((chunk[2], chunk[0], chunk[3]) for chunk in ready), *(c for _, c in coming)]
        self._chunks = np.empty((3, 0))
        if left:
            self.add(*np.array(left).T)
        delays = np.array([end - chunk[2] for end, chunk in done])
        return delays, np.array([end - chunk[0] for end, chunk in done])

    def _step(self, now: float, ready: list[_Chunk]) -> list[tuple[float, _Chunk]]:
        """Start the step that is due first, with batching the run that takes all that fit."""
        if not self._is_batching:
            chunk = heapq.heappop(ready)
            return [(self._run(now, chunk[3]), chunk)]
        chunks = [heapq.heappop(ready) for _ in range(min(len(ready), self._workers))]
        # The mean cost of a run of this width, spread as that of the first chunk is.
        cost = self._means[len(chunks)] * chunks[0][3] / self._full
        self._free[0] = now + cost
        self.busy_seconds += cost
        return [(now + cost, chunk) for chunk in chunks]

    def _run(self, start: float, cost: float) -> float:
        """Occupy a worker from *start*, and return until when."""
        if self._workers > 1:
            busy = 1 + sum(free > start for free in self._free)
            cost *= self._means[min(busy, self._workers)] / self._full
        heapq.heapreplace(self._free, start + cost)
        self.busy_seconds += cost
        return start + cost
