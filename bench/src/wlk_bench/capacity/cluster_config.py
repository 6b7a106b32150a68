"""A cluster and its load, for the simulation."""

from __future__ import annotations

import math
from typing import Any

import attrs

from wlk_bench.errors import DataError

__all__ = ["ClusterConfig", "LoadProfile"]


def _positive(_config: object, field: attrs.Attribute[Any], value: float) -> None:
    if not 0 < value < math.inf:
        raise DataError(f"expected {field.name} above 0, got {value}")


def _not_negative(_config: object, field: attrs.Attribute[Any], value: float) -> None:
    if not 0 <= value < math.inf:
        raise DataError(f"expected {field.name} of 0 or more, got {value}")


@attrs.frozen(kw_only=True)
class ClusterConfig:
    """
    Replicas and how they are scaled; durations are seconds.

    Attributes:
        max_sessions: of one replica; more are refused.
        start_seconds: from the decision for a replica until it takes sessions; it is paid for.
        min_replicas: replicas that always run.
        max_replicas: replicas at most.
        control_seconds: how often the replicas are counted.
        upscale_delay: how long more replicas have to be needed until they are started.
        downscale_delay: how long fewer have to be needed until replicas are drained.
        drain_seconds: how long sessions of a drained replica may go on; then they open elsewhere.
        replicas_per_node: replicas that fail together.
        reconnect_seconds: until a client whose replica failed opens its session elsewhere.
        retry_seconds: until it tries again where every replica is full.
        uncommitted_seconds: audio that such a client sends again, besides that of the meantime.

    Raises:
        DataError: a value is out of range.

    """

    max_sessions: int = attrs.field(validator=_positive)
    start_seconds: float = attrs.field(default=30.0, validator=_not_negative)
    min_replicas: int = attrs.field(default=1, validator=_positive)
    max_replicas: int = attrs.field(default=10_000, validator=_positive)
    control_seconds: float = attrs.field(default=10.0, validator=_positive)
    upscale_delay: float = attrs.field(default=30.0, validator=_not_negative)  # as Ray Serve
    downscale_delay: float = attrs.field(default=600.0, validator=_not_negative)  # as Ray Serve
    drain_seconds: float = attrs.field(default=3600.0, validator=_not_negative)
    replicas_per_node: int = attrs.field(default=1, validator=_positive)
    reconnect_seconds: float = attrs.field(default=1.0, validator=_not_negative)
    retry_seconds: float = attrs.field(default=10.0, validator=_positive)
    uncommitted_seconds: float = attrs.field(default=3.0, validator=_not_negative)

    def __attrs_post_init__(self) -> None:
        """Check the bounds of the replicas against each other."""
        if self.max_replicas < self.min_replicas:
            raise DataError(
                f"expected max_replicas of at least min_replicas ({self.min_replicas}), "
                f"got {self.max_replicas}"
            )


@attrs.frozen(kw_only=True)
class LoadProfile:
    """
    Sessions that arrive at random (Poisson) and last an exponential time.

    Attributes:
        sessions: that run at a time, on average.
        mean_seconds: of a session.
        initial_sessions: that run at the beginning; None for `sessions`.
        seconds: of the simulation.
        failures: times at which a node fails, in seconds.

    Raises:
        DataError: a value is out of range.

    """

    sessions: float = attrs.field(validator=_positive)
    mean_seconds: float = attrs.field(default=600.0, validator=_positive)
    initial_sessions: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(_not_negative)
    )
    seconds: float = attrs.field(default=3600.0, validator=_positive)
    failures: tuple[float, ...] = ()

    @property
    def arrivals_per_second(self) -> float:
        """Sessions that arrive in a second, on average."""
        return self.sessions / self.mean_seconds
