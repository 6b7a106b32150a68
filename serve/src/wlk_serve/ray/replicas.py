"""How many replicas a load needs: by the sessions that run and by how late their steps end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["replica_count"]

_FILL = 0.7  # of the sessions of a replica, so that a new one has a place while another starts
_MAX_LATENESS = 0.5  # seconds; captions that lag more than this are noticed


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
        latenesses: seconds after their deadline at which steps end, of each replica.

    """
    count = math.ceil(sessions / (_FILL * max_sessions))
    late = [seconds > _MAX_LATENESS for seconds in latenesses]
    if late and 2 * sum(late) > len(late):
        count = max(count, running + 1)
    return count
