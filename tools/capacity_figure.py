"""
Draw docs/capacity.svg and write docs/capacity.json from a report of `wlk-bench capacity`.

    python tools/capacity_figure.py REPORT

The figure has the replicas that a load needs, up to 10,000 sessions, and a cluster whose load grows
while a node fails.  All of it is simulated on the costs in the report, with one seed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wlk_bench.capacity.cluster_config import ClusterConfig, LoadProfile
from wlk_bench.capacity.plan import cost_curve, plan
from wlk_bench.capacity.report import read_report
from wlk_bench.capacity.service_times import ServiceTimes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

DOCS = Path(__file__).resolve().parents[1] / "docs"
LOADS = (10, 30, 100, 300, 1000, 3000, 10_000)
MINUTE = 60.0
CURVE = LoadProfile(sessions=1, mean_seconds=10 * MINUTE, seconds=10 * MINUTE)
GROWTH = LoadProfile(
    sessions=10_000,
    initial_sessions=2000,
    mean_seconds=5 * MINUTE,
    seconds=30 * MINUTE,
    failures=(20 * MINUTE,),
)
NODE = 8  # replicas that fail together
STRIDE = 6  # moments that are drawn: one a minute


def build(report: Mapping[str, Any], loads: Sequence[int] = LOADS) -> dict[str, Any]:
    """Return the data of the figure; lateness in seconds, replicas as replica hours an hour."""
    service: ServiceTimes = report["service"]
    cluster = ClusterConfig(max_sessions=report["sessions"], replicas_per_node=NODE)
    return {
        "setup": {
            "backend": report["setup"]["backend"],
            "model": report["setup"]["model"],
            "clock": report["setup"]["clock"],
            "processor": report["platform"]["processor"],
            "cores": report["cores"],
            "p99_lateness": report["p99_lateness"],
            "sessions": report["sessions"],
        },
        "service": service.to_json(),
        "curve": cost_curve(service, cluster, CURVE, sessions=loads),
    }


def grow(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cluster whose load grows, as `plan` has it, with a moment a minute."""
    cluster = ClusterConfig(max_sessions=data["setup"]["sessions"], replicas_per_node=NODE)
    service = ServiceTimes.from_json(data["service"])
    grown = plan(service, cluster, GROWTH, price_per_hour=None, seed=0)
    moments = [
        {name: value for name, value in moment.items() if name != "cost"}
        for moment in grown["moments"][STRIDE - 1 :: STRIDE]
    ]
    names = ("arrived", "completed", "refused", "running", "reopened", "failed_replicas")
    names = (*names, "most_replicas", "replica_hours", "p99_lateness")
    return {**{name: grown[name] for name in names}, "moments": moments}


def draw(data: Mapping[str, Any], path: Path) -> None:
    """Draw the data; the same data give the same file."""
    import matplotlib as mpl  # noqa: PLC0415 -- half a second
    from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: PLC0415 -- as above
    from matplotlib.figure import Figure  # noqa: PLC0415 -- as above

    with mpl.rc_context({"svg.hashsalt": "wlk", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(9, 3.4), layout="constrained")
        FigureCanvasSVG(figure)
        curve, growth = figure.subplots(1, 2)
        _draw_curve(curve, data)
        _draw_growth(growth, data)
        figure.savefig(path, metadata={"Date": None})


def _draw_curve(axes: Axes, data: Mapping[str, Any]) -> None:
    rows = data["curve"]
    sessions = [row["sessions"] for row in rows]
    axes.plot(sessions, [row["replicas"] for row in rows], "o-", label="simulated, scaled")
    full = [max(1.0, count / data["setup"]["sessions"]) for count in sessions]
    axes.plot(sessions, full, "--", color="0.5", label="every replica full")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="sessions at a time",
        ylabel="cost: replica hours an hour",
        title="Cost against load",
    )
    axes.legend(frameon=False)


def _draw_growth(axes: Axes, data: Mapping[str, Any]) -> None:
    moments = data["growth"]["moments"]
    minutes = [moment["time"] / MINUTE for moment in moments]
    axes.plot(minutes, [moment["sessions"] for moment in moments], label="sessions")
    places = [moment["ready"] * data["setup"]["sessions"] for moment in moments]
    axes.plot(minutes, places, "--", color="0.5", label="places on replicas")
    axes.plot(minutes, [moment["refused"] for moment in moments], ":", color="C3", label="refused")
    axes.set(xlabel="minute", title="The load grows; a node fails in minute 20")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    data = build(read_report(parser.parse_args().report))
    data["growth"] = grow(data)
    text = json.dumps(data, indent=None, ensure_ascii=False)
    (DOCS / "capacity.json").write_text(text + "\n", encoding="utf-8")
    draw(data, DOCS / "capacity.svg")


if __name__ == "__main__":
    main()
