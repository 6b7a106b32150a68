"""The report of a capacity: a JSON document, and a table for one screen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_bench.capacity.service_times import ServiceTimes
from wlk_bench.environment import describe_platform
from wlk_bench.errors import CapacityError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from rich.table import Table

    from wlk_bench.capacity.search import Capacity

__all__ = ["CAPACITY_SCHEMA", "build_report", "check_rows", "read_report", "tables", "write_report"]

CAPACITY_SCHEMA = "wlk-bench-capacity/1"
_MILLI = 1000.0
_MEGA = 1e6


def build_report(
    capacity: Capacity,
    *,
    setup: Mapping[str, Any],
    versions: Mapping[str, str],
    cores: int,
    gpus: int,
) -> dict[str, Any]:
    """Return the document: times are seconds, memory is bytes, utilisation is a share of 1."""
    best = capacity.run.measured
    return {
        "schema": CAPACITY_SCHEMA,
        "setup": dict(setup),
        "platform": describe_platform(),
        "versions": dict(versions),
        "p99_lateness": capacity.p99_lateness,
        "sessions": capacity.sessions,
        "sessions_that_are_late": capacity.lost,
        "predicted_sessions": capacity.predicted_sessions,
        "cores": cores,
        "gpus": gpus,
        "sessions_per_core": capacity.sessions / cores,
        "sessions_per_gpu": capacity.sessions / gpus if gpus else None,
        "session_bytes": best.session_bytes,
        "utilisation": best.utilisation,
        "costs": _costs(capacity.service),
        "service": capacity.service.to_json(),
        "runs": [
            {
                **attrs.asdict(run, filter=lambda field, _value: field.name != "service"),
                "ratio": run.ratio,
                "own_ratio": run.own_ratio,
            }
            for run in capacity.runs
        ],
    }


def _costs(service: ServiceTimes) -> list[dict[str, float]]:
    """Return the distribution of the costs of chunks by the streams that are due together."""
    found = []
    for streams, traces in sorted(service.by_streams.items()):
        costs = np.concatenate(traces)
        p50, p95, p99 = np.percentile(costs, [50, 95, 99])
        found.append(
            {
                "streams": streams,
                "count": len(costs),
                "mean": float(costs.mean()),
                "p50": float(p50),
                "p95": float(p95),
                "p99": float(p99),
            }
        )
    return found


def write_report(path: Path, report: Mapping[str, Any]) -> None:
    """Write the document."""
    path.write_text(json.dumps(report, ensure_ascii=False) + "\n", encoding="utf-8")


def read_report(path: Path) -> dict[str, Any]:
    """
    Return the document at *path*, with `service` as ServiceTimes.

    Raises:
        CapacityError: it is no report of this schema.
        DataError: its service times cannot be used.

    """
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CapacityError(f"expected a report of wlk-bench capacity in {path}: {error}") from None
    schema = report.get("schema") if isinstance(report, dict) else None
    if schema != CAPACITY_SCHEMA:
        raise CapacityError(
            f"expected a report of wlk-bench capacity ({CAPACITY_SCHEMA}) in {path}, got {schema!r}"
        )
    if not isinstance(report.get("sessions"), int) or report["sessions"] < 1:
        raise CapacityError(f"expected 1 session or more in {path}, got {report.get('sessions')!r}")
    return {**report, "service": ServiceTimes.from_json(report.get("service") or {})}


def check_rows(report: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield each run beside its prediction: sessions, p99, ratios, utilisation, drift."""
    for run in sorted(report["runs"], key=lambda run: run["measured"]["sessions"]):
        measured, predicted = run["measured"], run["predicted"]
        others = measured["other_cores"]
        yield (
            str(measured["sessions"]),
            f"{measured['p99_delay'] * _MILLI:.0f} ms",
            f"{predicted['p99_delay'] * _MILLI:.0f} ms",
            f"{run['ratio']:.2f}",
            "-" if run["own_ratio"] is None else f"{run['own_ratio']:.2f}",
            f"{measured['utilisation']:.0%}",
            f"{predicted['utilisation']:.0%}",
            "-" if others is None else f"{others:.2f}",
            f"{run['cost_ratio']:.2f}",
            f"{run['sensitivity']:.2f}" if "sensitivity" in run else "-",  # absent in older reports
        )


def tables(report: Mapping[str, Any]) -> Iterator[Table]:
    """Yield the figures, the costs and the check as tables."""
    from rich.table import Table  # noqa: PLC0415 -- only a terminal needs it

    setup = report["setup"]
    name = f"{setup['backend']} {setup['model']}, chunks of {setup['chunk_seconds']:g} s"
    figures = Table(title=name, title_justify="left", show_header=False, box=None)
    for label, text in _figures(report):
        figures.add_row(label, text)
    yield figures
    names = ("mean", "p50", "p95", "p99")
    costs = Table(
        "due together", "chunks", *names, title="cost of a chunk", title_justify="left", box=None
    )
    for cost in report["costs"]:
        times = [f"{cost[name] * _MILLI:.1f} ms" for name in names]
        costs.add_row(str(cost["streams"]), str(cost["count"]), *times)
    yield costs
    columns = ["sessions", "p99 measured", "predicted", "ratio", "own costs"]
    columns += ["busy", "predicted", "others", "cost after / before", "p99, costs x 1.05"]
    title = "p99 from the arrival of a chunk until it is done"
    check = Table(*columns, title=title, title_justify="left", box=None)
    for row in check_rows(report):
        check.add_row(*row)
    yield check


def _figures(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    lost = report["sessions_that_are_late"]
    bound = f"p99 lateness of at most {report['p99_lateness']:g} s"
    yield f"sessions with a {bound}", f"{report['sessions']}, late with {lost or 'more'}"
    ratio = report["predicted_sessions"] / report["sessions"]
    yield "predicted from the costs", f"{report['predicted_sessions']} (ratio {ratio:.2f})"
    cores = f"on {report['cores']} cores, utilisation {report['utilisation']:.0%}"
    yield "sessions per core", f"{report['sessions_per_core']:.1f} {cores}"
    if report["sessions_per_gpu"] is not None:
        yield "sessions per GPU", f"{report['sessions_per_gpu']:.1f}"
    memory = report["session_bytes"]
    yield "memory per session", "-" if memory is None else f"{memory / _MEGA:.1f} MB"
