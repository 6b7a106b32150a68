"""Where sessions go on Ray Serve, and how many replicas they need."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ray.serve.config import AutoscalingContext

__all__ = ["LATENESS", "ScalingPolicy", "model_rank", "replica_count"]

LATENESS = "lateness"  #: the metric of a replica: the p99 lateness of its steps in seconds
_FILL = 0.7  # of the sessions of a replica, so that a new one has a place while another starts
_MAX_LATENESS = 0.5  # seconds; captions that lag more than this are noticed


class ScalingPolicy:
    """
    The policy of a deployment of Ray Serve, which keeps the bounds and the delays itself.

    Args:
        max_sessions: of one replica.

    """

    def __init__(self, max_sessions: int) -> None:
        self._max_sessions = max_sessions

    def __call__(self, context: AutoscalingContext) -> tuple[int, dict[str, Any]]:
        """Return the replicas that are needed, and a state that is empty."""
        metrics = (context.aggregated_metrics or {}).get(LATENESS, {})
        count = replica_count(
            sessions=context.total_num_requests,
            running=context.current_num_replicas,
            max_sessions=self._max_sessions,
            latenesses=metrics.values(),
        )
        return count, {}


def replica_count(
    *, sessions: float, running: int, max_sessions: int, latenesses: Iterable[float]
) -> int:
    """
    Return how many replicas are needed.

    Sessions fill replicas to seven tenths.  Where most replicas step their sessions too late, one
    more is needed whatever the count is: the sessions cost more than they were expected to.

    Args:
        sessions: sessions that run on all replicas, and those that wait.
        running: replicas that run now.
        max_sessions: of one replica.
        latenesses: p99 lateness of the steps of each replica in seconds.

    """
    count = math.ceil(sessions / (_FILL * max_sessions))
    late = [seconds > _MAX_LATENESS for seconds in latenesses]
    if late and 2 * sum(late) > len(late):
        count = max(count, running + 1)
    return count


def model_rank(report: Mapping[str, Any], model: str | None, *, requests: int) -> int:
    """
    Return how well a replica with a number of *requests* suits a session of *model*, 0 the best.

    First come replicas with the model, then those that can load it, then those that could not when
    they reported last or that did not report yet, and at the end those without a place.

    Args:
        report: of `Replica.record_routing_stats`; empty before the first one.
        model: what the client asks for; None for the default.
        requests: that the replica has.

    """
    if not report:
        return 2
    if requests >= report["max_sessions"]:
        return 3
    if (model or report["default"]) in report["names"]:
        return 0
    return 1 if report["has_room"] else 2
