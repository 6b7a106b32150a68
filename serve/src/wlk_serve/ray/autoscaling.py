"""The replicas that a load needs, as a policy of Ray Serve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wlk_serve.ray.replicas import replica_count

if TYPE_CHECKING:
    from ray.serve.config import AutoscalingContext

__all__ = ["LATENESS", "ScalingPolicy"]

LATENESS = (
    "lateness"  # the metric of a replica: seconds after their deadline, one step in a hundred
)


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
