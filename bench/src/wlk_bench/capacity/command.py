"""The command `wlk-bench capacity`, its report and its tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs
import click

from wlk_bench.errors import extra
from wlk_bench.options import FiniteRange, output_option
from wlk_bench.report import grid, print_table
from wlk_live.cli.options import pairs_option

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from rich.table import Table

    from wlk_bench.capacity.measurement import PacedRun

CAPACITY_SCHEMA = "wlk-bench-capacity/2"
_QUIET_CORES = 0.1  # cores; on a quiet machine other processes use no more
_MILLI = 1000.0
_COUNT = click.IntRange(min=1)
_SECONDS = FiniteRange(min=0, min_open=True)


@click.command()
@click.argument("backend")
@click.option("--model", help="Size alias, repository id or local directory.")
@pairs_option("--option", "options", "An option of the backend or its streams")
@click.option("--language", help="Language code to force; by default that of the data.")
@click.option("--data", default="digits", show_default=True, metavar="NAME",
              help="What is spoken; see wlk-bench run.")  # fmt: skip
@click.option("--tick", type=_SECONDS, default=0.5, show_default=True,
              help="Seconds of audio per chunk, and from its arrival to its deadline.")  # fmt: skip
@click.option("--p99", type=FiniteRange(min=0), default=0.05, show_default=True,
              help="Maximum p99 lateness of chunks, in seconds after their deadline.")  # fmt: skip
@click.option("--cores", type=_COUNT, help="Number of cores to use; by default all.")
@click.option("--gpus", type=click.IntRange(min=0), default=0, show_default=True,
              help="Number of GPUs that the backend uses, to report sessions per GPU.")  # fmt: skip
@click.option("--clock", type=click.Choice(["wall", "cpu"]), default="wall", show_default=True,
              help="cpu: time one worker by its processor time, as if it had a core of its own "
              "on a shared machine.")  # fmt: skip
@click.option("--seconds", type=_SECONDS, default=20.0, show_default=True,
              help="Seconds of audio per session in a run.")  # fmt: skip
@click.option("--runs", type=_COUNT, default=6, show_default=True,
              help="Maximum number of runs in real time.")  # fmt: skip
@output_option(help="Write the report to this file, as JSON.")
def capacity(
    *,
    p99: float,
    gpus: int,
    seconds: float,
    runs: int,
    output: Path | None,
    **conditions: Any,
) -> None:
    """
    Measure how many sessions of BACKEND this machine sustains in real time.

    The first run has as many sessions as the throughput of the machine suggests; the next runs
    have more or fewer, until they have found the most sessions whose chunks are done in time.
    """
    with extra("capacity"):
        from wlk_bench.capacity.measurement import open_bench  # noqa: PLC0415 -- imports numpy
    from wlk_bench.capacity.search import search  # noqa: PLC0415 -- as above
    from wlk_bench.environment import describe_platform  # noqa: PLC0415 -- as above

    with open_bench(**conditions) as (bench, config):
        # Each run decodes up to twice its audio, and then waits for chunks that are late.
        about = runs * 3 * seconds / 60
        longest = runs * (4 * seconds + bench.drain_seconds) / 60
        click.echo(
            f"up to {runs} runs of {seconds:g} s: about {about:.1f} min (at most {longest:.1f} "
            "min on a quiet machine)",
            err=True,
        )
        result = search(bench, p99_lateness=p99, seconds=seconds, max_runs=runs, observe=_show_run)
    # Times are seconds, memory is bytes, utilisation is a share of 1.
    report = {
        "schema": CAPACITY_SCHEMA,
        "setup": {
            **config.to_json(),
            "clock": conditions["clock"],
            "seconds": seconds,
            "workers": bench.workers,
        },
        "platform": describe_platform(),
        "versions": dict(config.versions),
        "p99_lateness": p99,
        "sessions": result.sessions,
        "sessions_that_are_late": result.fewest_late,
        "cores": bench.cores,
        "gpus": gpus,
        "sessions_per_core": result.sessions / bench.cores,
        "sessions_per_gpu": result.sessions / gpus if gpus else None,
        "session_bytes": result.best.session_bytes,
        "utilisation": result.best.utilisation,
        "audio_per_second": result.throughput,
        "runs": [attrs.asdict(run) for run in result.runs],
    }
    others = max(run.other_cores or 0.0 for run in result.runs)
    if others > _QUIET_CORES:
        click.echo(
            f"other processes used up to {others:.1f} cores, which affects the figures; "
            "repeat the command when the machine is quiet",
            err=True,
        )
    for table in _tables(report):
        print_table(table)
    if output is not None:
        output.write_text(json.dumps(report, ensure_ascii=False) + "\n", encoding="utf-8")


def _show_run(run: PacedRun) -> None:
    click.echo(f"{run.sessions} sessions: p99 lateness {run.p99_lateness:.2f} s", err=True)


def _tables(report: Mapping[str, Any]) -> Iterator[Table]:
    """Yield the figures and the runs as tables."""
    from rich.table import Table  # noqa: PLC0415 -- only a terminal needs it

    setup = report["setup"]
    name = f"{setup['backend']} {setup['model']}, chunks of {setup['chunk_seconds']:g} s"
    bound = f"p99 lateness of at most {report['p99_lateness']:g} s"
    late = report["sessions_that_are_late"] or "more"
    cores = f"on {report['cores']} cores, utilisation {report['utilisation']:.0%}"
    memory = report["session_bytes"]
    figures = [
        (f"sessions with a {bound}", f"{report['sessions']}, late with {late}"),
        ("sessions per core", f"{report['sessions_per_core']:.1f} {cores}"),
        ("memory per session", "-" if memory is None else f"{memory / 1e6:.1f} MB"),
        ("audio decoded in a second", f"{report['audio_per_second']:.1f} s"),
    ]
    if report["sessions_per_gpu"] is not None:
        figures.insert(2, ("sessions per GPU", f"{report['sessions_per_gpu']:.1f}"))
    yield grid(name, figures)
    columns = ("sessions", "p99 from arrival", "from deadline", "busy", "cores used by others")
    runs = Table(*columns, title="runs in real time", title_justify="left", box=None)
    for run in sorted(report["runs"], key=lambda run: run["sessions"]):
        others = run["other_cores"]
        runs.add_row(
            str(run["sessions"]),
            f"{run['p99_delay'] * _MILLI:.0f} ms",
            f"{run['p99_lateness'] * _MILLI:+.0f} ms",
            f"{run['utilisation']:.0%}",
            "-" if others is None else f"{others:.2f}",
        )
    yield runs
