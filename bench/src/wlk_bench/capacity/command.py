"""The command wlk-bench capacity."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wlk_bench.errors import CapacityError
from wlk_bench.screen import print_table

if TYPE_CHECKING:
    from wlk_bench.capacity.search import CheckedRun

__all__ = ["capacity"]

_HOUR = 3600.0
_MINUTE = 60.0
_QUIET_CORES = 0.1  # that other processes use on a quiet machine


def _above_zero(
    _context: click.Context, _parameter: click.Parameter, value: float | None
) -> float | None:
    if value is not None and not 0 < value < math.inf:
        raise click.BadParameter(f"expected a number above 0, got {value:g}")
    return value


def _from_zero(
    _context: click.Context, _parameter: click.Parameter, value: float | None
) -> float | None:
    if value is not None and not 0 <= value < math.inf:
        raise click.BadParameter(f"expected 0 or more, got {value:g}")
    return value


_COUNT = click.IntRange(min=1)


@click.command()
@click.argument("backend")
@click.option("--model", help="Size alias, repository id or local directory.")
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE",
              help="An option of the backend or its streams; may be repeated.")  # fmt: skip
@click.option("--language", help="Code the streams are forced to; by default that of the data.")
@click.option("--data", default="digits", show_default=True, metavar="NAME",
              help="What is spoken; see wlk-bench run.")  # fmt: skip
@click.option("--tick", type=float, callback=_above_zero, default=0.5, show_default=True,
              help="Seconds of audio in a chunk, and until it is to be done.")  # fmt: skip
@click.option("--p99", type=float, callback=_from_zero, default=0.05, show_default=True,
              help="Seconds after their deadline at which 99 in 100 chunks are done.")  # fmt: skip
@click.option("--cores", type=_COUNT, help="Use so many cores; by default all.")
@click.option("--gpus", type=click.IntRange(min=0), default=0, show_default=True,
              help="GPUs that the backend uses: sessions are counted for each.")  # fmt: skip
@click.option("--clock", type=click.Choice(["wall", "cpu"]), default="wall", show_default=True,
              help="cpu: one worker in simulated time that processor time moves, which gives it "
              "a core of its own on a shared machine.")  # fmt: skip
@click.option("--seconds", type=float, callback=_above_zero, default=20.0, show_default=True,
              help="Audio of each session in a run.")  # fmt: skip
@click.option("--runs", type=_COUNT, default=6, show_default=True,
              help="Runs in real time that search, at most; two more compare.")  # fmt: skip
@click.option("--measured", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Take the figures of this report instead of measuring.")  # fmt: skip
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False),
              help="Write the report, JSON, to this file.")  # fmt: skip
@click.option(
    "--load",
    type=float,
    callback=_above_zero,
    help="Simulate a cluster with so many sessions at a time.",
)
@click.option("--arrivals-per-hour", type=float, callback=_above_zero,
              help="Instead of --load: sessions that arrive in an hour.")  # fmt: skip
@click.option("--mean-minutes", type=float, callback=_above_zero, default=10.0, show_default=True,
              help="Mean length of a session.")  # fmt: skip
@click.option("--initial-load", type=click.IntRange(min=0),
              help="Sessions at the beginning; by default the load.")  # fmt: skip
@click.option("--minutes", type=float, callback=_above_zero, default=20.0, show_default=True,
              help="Of the simulation.")  # fmt: skip
@click.option(
    "--price-per-hour", type=float, callback=_from_zero, help="Of a replica, in any currency."
)
@click.option("--max-sessions", type=_COUNT,
              help="Of a replica; by default those that were kept.")  # fmt: skip
@click.option("--max-replicas", type=_COUNT, default=10_000, show_default=True)
@click.option("--start-seconds", type=float, callback=_from_zero, default=30.0, show_default=True,
              help="Until a new replica takes sessions.")  # fmt: skip
@click.option("--replicas-per-node", type=_COUNT, default=1, show_default=True)
@click.option("--failures", type=click.IntRange(min=0), default=1, show_default=True,
              help="Nodes that fail, evenly over the simulation.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True)
def capacity(*, output: Path | None, **arguments: Any) -> None:
    """
    Measure how many sessions of BACKEND this machine keeps; predict replicas for a load.

    The costs of chunks are measured first, then sessions run in real time.  With --load a cluster
    of such machines is simulated: placement, scaling, drain, and nodes that fail.
    """
    from wlk_bench.capacity.plan import plan, plan_table  # noqa: PLC0415 -- brings numpy
    from wlk_bench.capacity.report import (  # noqa: PLC0415 -- as above
        read_report,
        tables,
        write_report,
    )
    from wlk_bench.capacity.service_times import ServiceTimes  # noqa: PLC0415 -- as above

    profile = _load_profile(arguments)  # before a measurement of minutes
    if (measured := arguments["measured"]) is None:
        report = _measure(arguments)
        service = ServiceTimes.from_json(report["service"])
    else:
        report = read_report(measured)
        service = report["service"]
        if report["setup"]["backend"] != arguments["backend"]:
            raise CapacityError(
                f"expected a report of {arguments['backend']} in {measured}, got one of "
                f"{report['setup']['backend']}"
            )
    shown = list(tables(report))
    if profile is not None:
        report["plan"] = plan(
            service,
            _cluster(arguments, report["sessions"]),
            profile,
            price_per_hour=arguments["price_per_hour"],
            seed=arguments["seed"],
        )
        shown += plan_table(report["plan"])
    for table in shown:
        print_table(table)
    if output is not None:
        write_report(output, {**report, "service": service.to_json()})


def _load_profile(arguments: dict[str, Any]) -> Any:
    from wlk_bench.capacity.cluster_config import LoadProfile  # noqa: PLC0415 -- with the others

    load, arrivals = arguments["load"], arguments["arrivals_per_hour"]
    if load is not None and arrivals is not None:
        raise click.UsageError("expected --load or --arrivals-per-hour, got both")
    if load is None and arrivals is None:
        if arguments["price_per_hour"] is not None:
            raise click.UsageError("expected --load N beside --price-per-hour, got no load")
        return None
    mean_seconds = arguments["mean_minutes"] * _MINUTE
    seconds, failures = arguments["minutes"] * _MINUTE, arguments["failures"]
    return LoadProfile(
        sessions=arrivals * mean_seconds / _HOUR if load is None else load,
        mean_seconds=mean_seconds,
        initial_sessions=arguments["initial_load"],
        seconds=seconds,
        failures=tuple(seconds * (k + 1) / (failures + 1) for k in range(failures)),
    )


def _cluster(arguments: dict[str, Any], sessions: int) -> Any:
    from wlk_bench.capacity.cluster_config import ClusterConfig  # noqa: PLC0415 -- as above

    return ClusterConfig(
        max_sessions=arguments["max_sessions"] or sessions,
        max_replicas=arguments["max_replicas"],
        start_seconds=arguments["start_seconds"],
        replicas_per_node=arguments["replicas_per_node"],
    )


def _measure(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the report of a measurement of this machine."""
    from wlk_bench.capacity.machine import open_bench  # noqa: PLC0415 -- brings numpy
    from wlk_bench.capacity.report import build_report  # noqa: PLC0415 -- as above
    from wlk_bench.capacity.search import RUNS_BELOW, search  # noqa: PLC0415 -- as above

    runs, seconds = arguments["runs"], arguments["seconds"]
    names = ("backend", "model", "options", "language", "data", "tick", "cores", "clock")
    with open_bench(**{name: arguments[name] for name in names}) as (bench, config):
        # Before a run, sessions decode up to as much audio as it has; for the costs, each decodes
        # twice as much.
        most = runs + RUNS_BELOW
        about = most * 4 * seconds / _MINUTE
        longest = most * (6 * seconds + bench.drain_seconds) / _MINUTE
        click.echo(
            f"at most {most} runs of {seconds:g} s, and the costs of chunks around each: about "
            f"{about:.1f} min, at most {longest:.1f} min on a machine that is quiet",
            err=True,
        )
        found = search(
            bench,
            p99_lateness=arguments["p99"],
            seconds=seconds,
            max_runs=runs,
            observe=_show_run,
        )
        others = max(run.measured.other_cores or 0.0 for run in found.runs)
        if others > _QUIET_CORES:
            click.echo(
                f"other processes used up to {others:.1f} cores, and the figures contain them; "
                "repeat the command when the machine is quiet",
                err=True,
            )
        setup = {
            **config.to_json(),
            "clock": arguments["clock"],
            "seconds": seconds,
            "workers": bench.workers,
        }
        return build_report(
            found,
            setup=setup,
            versions=config.versions,
            cores=bench.cores,
            gpus=arguments["gpus"],
        )


def _show_run(run: CheckedRun) -> None:
    measured = run.measured
    click.echo(
        f"{measured.sessions} sessions: p99 {measured.p99_delay:.2f} s from the arrival, "
        f"{measured.p99_lateness:.2f} s from the deadline, predicted "
        f"{run.predicted.p99_lateness:.2f} s",
        err=True,
    )
