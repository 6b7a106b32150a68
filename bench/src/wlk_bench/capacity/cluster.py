"""A cluster in simulated time: sessions, replicas, scaling, drain and failures."""

from __future__ import annotations

import heapq
from itertools import count
import math
import random
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_bench.capacity.replica import Replica, SimulatedSession
from wlk_bench.capacity.scaling import Scaling

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from wlk_bench.capacity.cluster_config import ClusterConfig, LoadProfile
    from wlk_bench.capacity.service_times import ServiceTimes

__all__ = ["ClusterMoment", "ClusterResult", "simulate"]

_BIN_SECONDS = 0.001  # the resolution of the percentile of all latenesses
_MOST_BINS = 100_000  # of lateness, after which it is counted as that
_SECONDS_PER_HOUR = 3600.0


@attrs.frozen(kw_only=True)
class ClusterMoment:
    """
    The cluster at one time; `refused` since the beginning, lateness since the moment before.

    Attributes:
        time: seconds since the beginning.
        sessions: that run on a replica.
        waiting: sessions that lost their replica and have no other one yet.
        refused: new sessions that found no room.
        ready: replicas that take sessions.
        starting: replicas that do not take them yet.
        draining: replicas that take them no more.
        p99_lateness: of the chunks that were done, in seconds; None where there were none.
        replica_hours: of all replicas, that were paid for.

    """

    time: float
    sessions: int
    waiting: int
    refused: int
    ready: int
    starting: int
    draining: int
    p99_lateness: float | None
    replica_hours: float


@attrs.frozen(kw_only=True)
class ClusterResult:
    """
    What the simulation counted: ``arrived == completed + refused + running + waiting``.

    Attributes:
        arrived: sessions, those at the beginning included.
        completed: sessions that ended with all of their audio sent.
        refused: sessions that found no room when they arrived.
        running: sessions on a replica at the end.
        waiting: sessions that had lost their replica at the end.
        reopened: how often a session was opened again on another replica.
        failed_replicas: replicas that were lost with their nodes.
        most_replicas: that ran at a time, in any state.
        replica_hours: of all replicas, that were paid for.
        session_hours: of audio that the sessions sent to replicas.
        p99_lateness: seconds from the deadline of a chunk until it was done, of 99 in 100 chunks.
        moments: the cluster over time.

    """

    arrived: int
    completed: int
    refused: int
    running: int
    waiting: int
    reopened: int
    failed_replicas: int
    most_replicas: int
    replica_hours: float
    session_hours: float
    p99_lateness: float | None
    moments: tuple[ClusterMoment, ...]


def simulate(
    service: ServiceTimes, config: ClusterConfig, load: LoadProfile, *, seed: int = 0
) -> ClusterResult:
    """Return what a cluster does under a load; the same for the same arguments."""
    return _Cluster(service, config, load, seed).run()


class _Cluster:
    """The state of the simulation and its events, in the order of their times."""

    def __init__(
        self, service: ServiceTimes, config: ClusterConfig, load: LoadProfile, seed: int
    ) -> None:
        self._service = service
        self._config = config
        self._load = load
        self._random = random.Random(seed)  # noqa: S311 -- reproducible arrivals, no secrets
        self._now = 0.0
        self._order = count()
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._replicas: list[Replica] = []  # that run, in any state
        self._scaling = Scaling(config)
        self._sessions = count()
        self._numbers = count()
        self._bins = np.zeros(_MOST_BINS, dtype=np.int64)
        self._stopped_seconds = 0.0
        self._sent_seconds = 0.0
        self._arrived = self._completed = self._refused = self._reopened = self._failed = 0
        self._waiting = self._most_replicas = 0
        self._moments: list[ClusterMoment] = []
        self._latest: list[NDArray[np.float64]] = []  # latenesses since the last moment

    def run(self) -> ClusterResult:
        load = self._load
        initial = load.initial_sessions
        initial = round(load.sessions) if initial is None else initial
        for _ in range(self._scaling.begin(initial)):
            self._start_replica(seconds=0.0)
        for _ in range(initial):
            self._after(self._random.random() * self._service.chunk_seconds, self._arrive)
        self._after(self._random.expovariate(load.arrivals_per_second), self._arrive_next)
        for moment in load.failures:
            self._after(moment, self._fail_node)
        self._after(self._config.control_seconds, self._control)
        while self._events and self._events[0][0] < load.seconds:
            self._now, _, event, arguments = heapq.heappop(self._events)
            event(*arguments)
        self._now = load.seconds
        self._observe()
        return self._result()

    def _after(self, seconds: float, event: Callable[..., None], *arguments: Any) -> None:
        entry = (self._now + seconds, next(self._order), event, arguments)
        heapq.heappush(self._events, entry)

    def _arrive_next(self) -> None:
        self._arrive()
        self._after(self._random.expovariate(self._load.arrivals_per_second), self._arrive_next)

    def _arrive(self) -> None:
        self._arrived += 1
        seconds = self._random.expovariate(1 / self._load.mean_seconds)
        session = SimulatedSession(next(self._sessions), self._now + seconds)
        if not self._assign(session, resent_seconds=0.0):
            self._refused += 1
            return
        self._after(seconds, self._end, session)

    def _assign(self, session: SimulatedSession, *, resent_seconds: float) -> bool:
        """Put *session* on the replica with the fewest sessions; return whether one has room."""
        ready = (replica for replica in self._replicas if replica.state == "ready")
        replica = min(ready, key=lambda replica: len(replica.sessions), default=None)
        if replica is None or len(replica.sessions) >= self._config.max_sessions:
            return False
        replica.join(session, self._now, resent_seconds=resent_seconds)
        live_seconds = max(0.0, min(session.ends, self._load.seconds) - self._now)
        self._sent_seconds += resent_seconds + live_seconds
        return True

    def _end(self, session: SimulatedSession) -> None:
        if session.replica is not None:  # else it ends when it is open again
            self._completed += 1
            self._leave(session)

    def _leave(self, session: SimulatedSession) -> None:
        replica = session.replica
        if replica is None:
            return
        replica.leave(session, self._now)
        if replica.state == "draining" and not replica.sessions:
            self._stop(replica)

    def _cut_off(self, session: SimulatedSession, *, uncommitted_seconds: float) -> None:
        """Take *session* from its replica; it opens elsewhere and sends again what is missing."""
        self._sent_seconds -= max(0.0, min(session.ends, self._load.seconds) - self._now)
        self._leave(session)
        self._waiting += 1
        session.cut_off = self._now - uncommitted_seconds
        self._after(self._config.reconnect_seconds, self._reopen, session)

    def _reopen(self, session: SimulatedSession) -> None:
        missing_since = self._now if session.cut_off is None else session.cut_off
        missing = max(0.0, min(self._now, session.ends) - missing_since)
        if not self._assign(session, resent_seconds=missing):
            self._after(self._config.retry_seconds, self._reopen, session)
            return
        self._waiting -= 1
        self._reopened += 1
        session.cut_off = None
        if session.ends <= self._now:
            self._end(session)

    def _start_replica(self, *, seconds: float) -> None:
        replica = Replica(self._service, number=next(self._numbers), started=self._now)
        self._replicas.append(replica)
        self._most_replicas = max(self._most_replicas, len(self._replicas))
        if seconds:
            self._after(seconds, self._make_ready, replica)
        else:
            self._make_ready(replica)

    def _make_ready(self, replica: Replica) -> None:
        if replica.state == "starting":
            replica.state = "ready"

    def _stop(self, replica: Replica) -> None:
        self._count(replica)
        replica.state = "stopped"
        replica.stopped = self._now
        self._stopped_seconds += self._now - replica.started
        self._replicas.remove(replica)

    def _drain(self, replica: Replica) -> None:
        replica.state = "draining"
        if replica.sessions:
            self._after(self._config.drain_seconds, self._end_drain, replica)
        else:
            self._stop(replica)

    def _end_drain(self, replica: Replica) -> None:
        for session in list(replica.sessions):  # with all of their words, so nothing is sent again
            self._cut_off(session, uncommitted_seconds=0.0)

    def _fail_node(self) -> None:
        """Lose the node of a replica that takes sessions, with all of its replicas."""
        ready = [replica for replica in self._replicas if replica.state == "ready"]
        if not ready:
            return
        size = self._config.replicas_per_node
        node = self._random.choice(ready).number // size
        for replica in [each for each in self._replicas if each.number // size == node]:
            self._failed += 1
            for session in list(replica.sessions):
                self._cut_off(session, uncommitted_seconds=self._config.uncommitted_seconds)
            if replica.state != "stopped":  # a drained one stops when its last session is gone
                self._stop(replica)

    def _control(self) -> None:
        """Count, decide how many replicas are needed, and start or drain some."""
        self._observe()
        ready = [replica for replica in self._replicas if replica.state == "ready"]
        starting = [replica for replica in self._replicas if replica.state == "starting"]
        target = self._scaling.target(
            self._now,
            sessions=sum(len(replica.sessions) for replica in ready) + self._waiting,
            running=len(ready),
            latenesses=[replica.lateness for replica in ready if replica.lateness is not None],
        )
        missing = target - len(ready) - len(starting)
        for _ in range(missing):
            self._start_replica(seconds=self._config.start_seconds)
        spare = sorted(ready, key=lambda replica: len(replica.sessions))
        for replica in [*starting, *spare][: max(0, -missing)]:
            self._drain(replica)
        self._after(self._config.control_seconds, self._control)

    def _observe(self) -> None:
        for replica in self._replicas:
            if replica.state != "starting":
                self._count(replica)
        states = [replica.state for replica in self._replicas]
        latest = np.concatenate(self._latest) if self._latest else np.empty(0)
        self._latest = []
        bins = (latest + self._service.tick_seconds) / _BIN_SECONDS
        numbers = np.clip(bins.astype(np.int64), 0, _MOST_BINS - 1)
        self._bins += np.bincount(numbers, minlength=_MOST_BINS)
        self._moments.append(
            ClusterMoment(
                time=self._now,
                sessions=sum(len(replica.sessions) for replica in self._replicas),
                waiting=self._waiting,
                refused=self._refused,
                ready=states.count("ready"),
                starting=states.count("starting"),
                draining=states.count("draining"),
                p99_lateness=float(np.percentile(latest, 99)) if len(latest) else None,
                replica_hours=self._replica_hours,
            )
        )

    def _count(self, replica: Replica) -> None:
        self._latest.append(replica.advance(self._now))

    @property
    def _replica_hours(self) -> float:
        running = sum(self._now - replica.started for replica in self._replicas)
        return (self._stopped_seconds + running) / _SECONDS_PER_HOUR

    @property
    def _p99_lateness(self) -> float | None:
        total = int(self._bins.sum())
        if not total:
            return None
        rank = math.ceil(0.99 * total)
        number = int(np.searchsorted(np.cumsum(self._bins), rank))
        return (number + 1) * _BIN_SECONDS - self._service.tick_seconds

    def _result(self) -> ClusterResult:
        return ClusterResult(
            arrived=self._arrived,
            completed=self._completed,
            refused=self._refused,
            running=sum(len(replica.sessions) for replica in self._replicas),
            waiting=self._waiting,
            reopened=self._reopened,
            failed_replicas=self._failed,
            most_replicas=self._most_replicas,
            replica_hours=self._replica_hours,
            session_hours=self._sent_seconds / _SECONDS_PER_HOUR,
            p99_lateness=self._p99_lateness,
            moments=tuple(self._moments),
        )
