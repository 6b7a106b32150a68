"""How many replicas a simulated cluster keeps: the policy of the server, with Ray's delays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_serve.ray.autoscaling import replica_count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_bench.capacity.cluster_config import ClusterConfig

__all__ = ["Scaling"]


class Scaling:
    """
    The number of replicas over time.

    `replica_count` of the server decides.  As in Ray Serve, the number changes only after a delay
    in which more, or fewer, were needed all the time.
    """

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._target = config.min_replicas
        self._direction = 0  # of the change that is needed: 1, 0 or -1
        self._since = 0.0

    def begin(self, sessions: int) -> int:
        """Return the replicas for *sessions* that run at the beginning."""
        self._target = self._needed(sessions=sessions, running=0, latenesses=())
        return self._target

    def target(
        self, now: float, *, sessions: int, running: int, latenesses: Iterable[float]
    ) -> int:
        """Return how many replicas are to run; see `replica_count` for the arguments."""
        needed = self._needed(sessions=sessions, running=running, latenesses=latenesses)
        direction = (needed > self._target) - (needed < self._target)
        if direction != self._direction:
            self._direction, self._since = direction, now
        delay = self._config.upscale_delay if direction > 0 else self._config.downscale_delay
        if direction and now - self._since >= delay:
            self._target, self._direction = needed, 0
        return self._target

    def _needed(self, *, sessions: int, running: int, latenesses: Iterable[float]) -> int:
        config = self._config
        needed = replica_count(
            sessions=sessions,
            running=running,
            max_sessions=config.max_sessions,
            latenesses=latenesses,
        )
        return min(config.max_replicas, max(config.min_replicas, needed))
