"""The command line of wlk-bench."""

from __future__ import annotations

import math
from pathlib import Path
import sys
from typing import Any

import click

from wlk_bench.agent.command import agent
from wlk_bench.annotators.command import annotator
from wlk_bench.capacity.command import capacity
from wlk_bench.metrics.normalise import NORMALISERS
from wlk_bench.options import output_option
from wlk_bench.report import comparison_rows, grid, print_table, rows, title
from wlk_live.cli.options import pairs_option


@click.group(no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="wlk-bench")
def main() -> None:
    """Measure streaming backends: errors, latency, cost, stability, word times and growth."""


@main.command()
@click.argument("backend")
@click.option("--model", help="Size alias, repository id or local directory.")
@click.option("--policy", help="The policy that decides which text is final.")
@pairs_option("--option", "options", "An option of the backend or its streams")
@click.option("--language", help="Language code to force; by default that of the data set.")
@click.option(
    "--task",
    type=click.Choice(["transcribe", "translate"]),
    default="transcribe",
    show_default=True,
)
@click.option(
    "--data",
    default="digits",
    show_default=True,
    metavar="NAME",
    help="digits, digits:MINUTES, librispeech:DIRECTORY or manifest:FILE.",
)
@click.option(
    "--mode",
    type=click.Choice(["utterance", "chapter", "single-shot"]),
    default="utterance",
    show_default=True,
    help="One stream per utterance, one per chapter, or each utterance as a single chunk.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help="Use at most this many streams, taken from the speakers in turn.",
)
@click.option(
    "--chunk-seconds",
    type=float,
    default=1.0,
    show_default=True,
    help="Seconds of audio in a chunk.",
)
@click.option("--realtime", "is_paced", is_flag=True, help="Send chunks at the pace of speech.")
@click.option("--streams", type=int, default=1, show_default=True, help="Concurrent streams.")
@click.option(
    "--pauses", is_flag=True, help="Report the gaps in chapters as silences instead of zeros."
)
@click.option(
    "--normaliser",
    "normaliser_name",
    type=click.Choice(NORMALISERS),
    help="Text normaliser; by default basic for digits and manifests, english for LibriSpeech.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Directory of the run; repeat the command to continue an interrupted run.",
)
def run(
    *,
    backend: str,
    policy: str | None,
    options: tuple[str, ...],
    data: str,
    mode: Any,
    limit: int | None,
    output: Path,
    pauses: bool,
    **conditions: Any,
) -> None:
    """Measure BACKEND, or continue an interrupted run."""
    from wlk_bench.config import load, prepare  # noqa: PLC0415 -- imports numpy
    from wlk_bench.data import load_dataset  # noqa: PLC0415 -- as above
    from wlk_bench.runner import run_benchmark  # noqa: PLC0415 -- as above

    if policy is not None:
        options = (*options, f"policy={policy}")
    dataset = load_dataset(data, mode=mode, limit=limit, reports_pauses=pauses)
    config, spec = prepare(dataset, backend, options=options, **conditions)
    result = run_benchmark(
        dataset, config, lambda: load(config, spec), output, observe=_show_progress
    )
    if sys.stderr.isatty():
        click.echo(err=True)
    print_table(grid(title(result), rows(result)))


@main.command()
@click.argument("a", type=click.Path(path_type=Path, exists=True))
@click.argument("b", type=click.Path(path_type=Path, exists=True))
def compare(a: Path, b: Path) -> None:
    """Compare result B with result A, sample by sample."""
    from wlk_bench.compare import compare as compared  # noqa: PLC0415 -- imports numpy
    from wlk_bench.results import read_result  # noqa: PLC0415 -- as above

    results = read_result(a), read_result(b)
    names = "\n".join(f"{letter}: {title(r)}" for letter, r in zip("AB", results, strict=True))
    print_table(grid(names, comparison_rows(compared(*results))))


@main.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@output_option(required=True)
def plot(files: tuple[Path, ...], output: Path) -> None:
    """Plot results: error against cost, latency, and cost over the stream."""
    from wlk_bench.plots import draw  # noqa: PLC0415 -- imports numpy
    from wlk_bench.results import read_results  # noqa: PLC0415 -- as above

    figure = draw([result for file in files for result in read_results(file)])
    try:
        figure.savefig(output, dpi=180, bbox_inches="tight")
    except ValueError as error:  # not the suffix of an image format
        raise click.BadParameter(str(error), param_hint="--output") from error
    click.echo(str(output))


@main.command()
def selftest() -> None:
    """Check the metrics against figures worked out by hand for a three-second stream."""
    from rich.table import Table  # noqa: PLC0415 -- only a terminal needs it

    from wlk_bench.selftest import cases  # noqa: PLC0415 -- imports numpy

    table = Table("metric", "why", "by hand", "computed", "", box=None)
    verdicts = []
    for metric, reason, expected, computed in cases():
        verdicts.append(computed is not None and math.isclose(expected, computed, abs_tol=1e-9))
        verdict = "ok" if verdicts[-1] else "WRONG"
        shown = "-" if computed is None else f"{computed:.4g}"
        table.add_row(metric, reason, f"{expected:.4g}", shown, verdict)
    print_table(table)
    click.echo(f"{sum(verdicts)} of {len(verdicts)} cases are correct")
    if not all(verdicts):
        click.get_current_context().exit(1)


def _show_progress(line: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{line}", err=True, nl=False)


main.add_command(agent)
main.add_command(annotator)
main.add_command(capacity)
