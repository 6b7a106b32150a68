"""What a run in real time leaves, and what it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from wlk_bench.capacity.service_times import ServiceTimes

__all__ = ["PacedRun", "Record"]


@attrs.frozen(kw_only=True)
class PacedRun:
    """
    Sessions whose audio came in real time.

    Attributes:
        sessions: how many ran.
        p99_delay: seconds from the arrival of a chunk until it was done, of 99 in 100 chunks.
        p99_lateness: the same from the deadline of the chunk.
        utilisation: processor time of this process, as a share of the cores of the measurement.
        other_cores: cores that other processes used meanwhile; None where it cannot be read.
        session_bytes: resident memory since the backend was loaded, divided by the sessions; None
            where it cannot be read.
        service: what the chunks of this run cost; None with batching, where chunks share a cost.

    """

    sessions: int
    p99_delay: float
    p99_lateness: float
    utilisation: float
    other_cores: float | None
    session_bytes: float | None
    service: ServiceTimes | None = attrs.field(default=None, repr=False)


@attrs.frozen(kw_only=True)
class Record:
    """What a run in real time leaves: seconds, and bytes at its end."""

    delays: list[float]
    costs: list[list[float]]  # of the chunks of each session
    busy: float
    elapsed: float
    memory: int | None
