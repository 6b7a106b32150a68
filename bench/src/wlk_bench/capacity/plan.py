"""Replicas and costs of a load: the simulated cluster as data, as a table, and as a curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from wlk_bench.capacity.cluster import simulate
from wlk_serve.ray.autoscaling import replica_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rich.table import Table

    from wlk_bench.capacity.cluster_config import ClusterConfig, LoadProfile
    from wlk_bench.capacity.service_times import ServiceTimes

__all__ = ["cost_curve", "plan", "plan_table"]

_HOUR = 3600.0
_MINUTE = 60.0
_MOST_ROWS = 12  # of the cluster over time


def plan(
    service: ServiceTimes,
    config: ClusterConfig,
    load: LoadProfile,
    *,
    price_per_hour: float | None,
    seed: int,
) -> dict[str, Any]:
    """
    Return the replicas that a load needs, and what a simulated cluster does with it.

    Costs are in the unit of *price_per_hour*, that of a replica, and None without it.
    """
    result = simulate(service, config, load, seed=seed)
    hours = load.seconds / _HOUR
    moments = [
        {**attrs.asdict(moment), "cost": _cost(moment.replica_hours, price_per_hour)}
        for moment in result.moments
    ]
    counts = attrs.asdict(result, filter=attrs.filters.exclude("moments"))
    needed = replica_count(
        sessions=load.sessions, running=0, max_sessions=config.max_sessions, latenesses=()
    )
    return {
        "load": attrs.asdict(load),
        "cluster": attrs.asdict(config),
        "seed": seed,
        "price_per_hour": price_per_hour,
        "replicas": needed,
        **counts,
        "replicas_on_average": result.replica_hours / hours,
        "cost": _cost(result.replica_hours, price_per_hour),
        "cost_per_hour": _cost(result.replica_hours / hours, price_per_hour),
        "cost_per_session_hour": _cost(
            result.replica_hours / result.session_hours if result.session_hours else 0.0,
            price_per_hour,
        ),
        "moments": moments,
    }


def _cost(replica_hours: float, price: float | None) -> float | None:
    return None if price is None else replica_hours * price


def plan_table(planned: Mapping[str, Any]) -> Iterator[Table]:
    """Yield the figures of `plan`, and the cluster over time."""
    from rich.table import Table  # noqa: PLC0415 -- only a terminal needs it

    load = planned["load"]
    title = (
        f"{load['sessions']:g} sessions of {load['mean_seconds'] / _MINUTE:g} min, "
        f"{load['seconds'] / _MINUTE:g} min simulated, seed {planned['seed']}"
    )
    figures = Table(title=title, title_justify="left", show_header=False, box=None)
    for row in _figures(planned):
        figures.add_row(*row)
    yield figures
    columns = ("minute", "sessions", "waiting", "refused", "ready", "starting", "draining")
    over_time = Table(*columns, "p99 late", "replica hours", "cost", box=None)
    moments = planned["moments"]
    stride = max(1, len(moments) // _MOST_ROWS)
    for moment in [*moments[stride - 1 :: stride][: _MOST_ROWS - 1], moments[-1]]:
        over_time.add_row(
            f"{moment['time'] / _MINUTE:.1f}",
            *(str(moment[name]) for name in columns[1:]),
            _seconds(moment["p99_lateness"]),
            f"{moment['replica_hours']:.1f}",
            "-" if moment["cost"] is None else f"{moment['cost']:.2f}",
        )
    yield over_time


def _figures(planned: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    places = planned["cluster"]["max_sessions"]
    yield "replicas for this load", f"{planned['replicas']}, each of up to {places} sessions"
    average, most = planned["replicas_on_average"], planned["most_replicas"]
    yield "replicas in the simulation", f"{average:.1f} on average, {most} at most"
    late = _seconds(planned["p99_lateness"])
    yield "p99 lateness", f"{late} (from the deadline of a chunk; negative is in time)"
    yield (
        "sessions",
        (
            f"{planned['arrived']} arrived, {planned['completed']} completed, "
            f"{planned['refused']} refused, {planned['running']} run, {planned['waiting']} wait"
        ),
    )
    lost = f"{planned['failed_replicas']} replicas lost with their nodes"
    yield "opened again elsewhere", f"{planned['reopened']}, {lost}"
    if planned["cost"] is None:
        yield "cost", f"{planned['replica_hours']:.1f} replica hours; --price-per-hour has a price"
    else:
        yield (
            "cost",
            (
                f"{planned['cost']:.2f} for {planned['replica_hours']:.1f} replica hours, "
                f"{planned['cost_per_hour']:.2f} an hour, "
                f"{planned['cost_per_session_hour']:.4f} an hour of a session"
            ),
        )


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"


def cost_curve(
    service: ServiceTimes,
    config: ClusterConfig,
    load: LoadProfile,
    *,
    sessions: Iterable[int],
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Return the replicas that ran on average, and what came of it, for numbers of sessions."""
    rows = []
    for count in sessions:
        profile = attrs.evolve(load, sessions=float(count))
        result = simulate(service, config, profile, seed=seed)
        rows.append(
            {
                "sessions": count,
                "replicas": result.replica_hours * _HOUR / load.seconds,
                "most_replicas": result.most_replicas,
                "p99_lateness": result.p99_lateness,
                "arrived": result.arrived,
                "refused": result.refused,
                "reopened": result.reopened,
            }
        )
    return rows
