"""A replica of a simulated cluster: its sessions, and the chunks that they send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import attrs
import numpy as np

from wlk_bench.capacity.step_queue import StepQueue

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wlk_bench.capacity.service_times import ServiceTimes

__all__ = ["Replica", "SimulatedSession"]

_BURST_SECONDS = 2.0  # the default of the scheduler: audio sent again is due this much earlier
State = Literal["starting", "ready", "draining", "stopped"]


@attrs.define(eq=False)
class SimulatedSession:
    """A session from its arrival to its end, on one replica after the other; times in seconds."""

    number: int
    ends: float
    replica: Replica | None = None
    cut_off: float | None = None  #: when it lost its replica; None while it has one


@attrs.define(eq=False)
class _Stay:
    """A session on a replica: chunks that are sent at once, then one each `chunk_seconds`."""

    joined: float
    ends: float
    stream: int
    sent_at_once: int
    sent: int = 0


class Replica:
    """
    One replica: who is on it, and when their chunks are done.

    Args:
        service: what chunks cost.
        number: of the replica, in the order of their starts.
        started: when it was started, in seconds.

    """

    def __init__(self, service: ServiceTimes, *, number: int, started: float) -> None:
        self.number = number
        self.started = started
        self.stopped: float | None = None
        self.state: State = "starting"
        self.sessions: dict[SimulatedSession, None] = {}  # in the order in which they joined
        self.lateness: float | None = None  #: the 99th percentile since the last `advance`
        self._service = service
        self._queue = StepQueue(service)
        self._stays: dict[SimulatedSession, _Stay] = {}
        self._left: list[_Stay] = []

    def join(self, session: SimulatedSession, now: float, *, resent_seconds: float) -> None:
        """Take *session*, which sends audio of *resent_seconds* at once."""
        self.sessions[session] = None
        session.replica = self
        self._stays[session] = _Stay(
            joined=now,
            ends=max(now, session.ends),
            stream=session.number,
            sent_at_once=round(resent_seconds / self._service.chunk_seconds),
        )

    def leave(self, session: SimulatedSession, now: float) -> None:
        """Let *session* send nothing after *now*."""
        del self.sessions[session]
        session.replica = None
        stay = self._stays.pop(session)
        stay.ends = min(stay.ends, now)
        self._left.append(stay)

    def advance(self, now: float) -> NDArray[np.float64]:
        """Let chunks arrive and be done until *now*; return their latenesses."""
        stays = [*self._stays.values(), *self._left]
        self._left = []
        if stays:
            self._send(stays, now)
        latenesses = self._queue.advance(now)[1]
        self.lateness = float(np.percentile(latenesses, 99)) if len(latenesses) else None
        return latenesses

    def _send(self, stays: list[_Stay], now: float) -> None:
        chunk = self._service.chunk_seconds
        joined, ends, at_once, sent, streams = np.array(
            [(s.joined, s.ends, s.sent_at_once, s.sent, s.stream) for s in stays]
        ).T
        totals = at_once + np.maximum(0, np.floor((np.minimum(ends, now) - joined) / chunk))
        counts = np.maximum(0, totals - sent).astype(int)
        for stay, count in zip(stays, counts, strict=True):
            stay.sent += int(count)
        owners = np.repeat(np.arange(len(stays)), counts)
        numbers = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        numbers = numbers + sent[owners].astype(int)
        arrivals = joined[owners] + chunk * np.maximum(0, numbers + 1 - at_once[owners])
        # As `DueTimes`: audio that is sent faster than it is spoken is due when it would have been
        # spoken, less the burst.
        due = np.maximum(arrivals, joined[owners] - _BURST_SECONDS + chunk * numbers)
        costs = self._service.costs(streams[owners].astype(int), numbers)
        self._queue.add(arrivals, due + self._service.tick_seconds, costs)
