"""
Measure all installed backends and write docs/benchmarks.md: python tools/benchmark_page.py.

Every backend that has a `digits` checkpoint and works on this machine is measured with each of its
policies.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from wlk_bench.config import load, prepare
from wlk_bench.data import load_dataset
from wlk_bench.report import percent
from wlk_bench.runner import run_benchmark
from wlk_core.errors import BackendUnavailable, WLKError
from wlk_core.registry import Registry, missing_requirements

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wlk_core.backend import BackendSpec

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
COMMAND = "nox -s pages -- benchmarks --write"
_CODED = frozenset({"scripted"})  # its engine reads coded audio, so there is no model to measure

_HEADER = (
    "backend", "policy", "WER [95 %]", "CER", "emission p50", "p90", "LongYAAL", "erasure",
    "word start median", "bias", "missing", "frames", "positions", "RTF",
)  # fmt: skip

_LONG_HEADER = (
    "backend", "policy", "WER [95 %]", "emission p50", "p90", "LongYAAL", "erasure", "frames",
    "last / second minute", "positions", "last / second minute", "state an hour",
)  # fmt: skip
_LONG_MINUTES = 5

_READING = """\
WER and CER are of the whole set, with a 95 % bootstrap interval over blocks of the reference.
Emission is the time from the true end of a word to its commit, in audio time (computation-unaware),
over the words that were recognised; LongYAAL is in audio time too.  Erasure is the number of words
erased from the display per word of the final text.  Missing are words that a flush did not commit.
Frames are encoder frames and positions decoder positions per second of audio: they do not depend on
the machine.  RTF does: it holds for the machine above under its load of that day.

"last / second minute" divides the work in the last minute by that in the second minute.
If there are no errors, the upper end of the interval is the binomial one.

A `digits` checkpoint is a tiny model of ten English words, made to test streaming.  The set comes
from the synthesisers on which the models were trained, with other settings, so few errors are
expected.  The table compares backends and policies on these models.
It does not predict the accuracy of real checkpoints: [Whisper](whisper.md#on-published-weights) has
the figures of tiny.en and base on recordings of English."""


@click.command()
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), default=PAGE)
@click.option("--limit", type=click.IntRange(min=1), help="Number of streams, for a quick check.")
@click.option(
    "--work",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory for logs and results; an interrupted run is continued there.",
)
def main(output: Path, limit: int | None, work: Path | None) -> None:
    """Measure every installed backend on the digits set and write the page."""
    registry = Registry()
    minutes = 1 if limit else _LONG_MINUTES
    with TemporaryDirectory() as temporary:
        folder = work or Path(temporary)
        try:
            specs, unmeasured = survey(registry)
            for name, reason in unmeasured:
                click.echo(f"{name} is left out: {reason}", err=True)
            short = measure_all(registry, specs, folder / "short", "digits", limit=limit)
            long = measure_all(registry, specs, folder / "long", f"digits:{minutes}")
        except WLKError as error:
            raise click.ClickException(" ".join(str(error).split())) from error
    output.write_text(page(short, long, unmeasured), encoding="utf-8")
    click.echo(f"{output}: {len(short)} rows")


def survey(registry: Registry) -> tuple[list[BackendSpec], list[tuple[str, str]]]:
    """
    Return the backends to measure, and the names of unusable ones with the reasons.

    Backends without a `digits` checkpoint, such as remote ones, are in neither.
    """
    usable: list[BackendSpec] = []
    unusable: list[tuple[str, str]] = []
    for spec in registry.specs():
        if "digits" not in spec.models or spec.name in _CODED:
            continue
        if missing := missing_requirements(spec):
            unusable.append((spec.name, f"needs {', '.join(missing)}"))
            continue
        try:
            registry.load_backend(spec.name, "digits").close()
        except BackendUnavailable as error:  # installed, but it does not run on this machine
            unusable.append((spec.name, " ".join(str(error).split())))
        else:
            usable.append(spec)
    return usable, unusable


def measure_all(
    registry: Registry,
    specs: Sequence[BackendSpec],
    work: Path,
    data: str,
    *,
    limit: int | None = None,
) -> list[dict[str, Any]]:
    """Return the result of each backend with each policy, printing a line for each when done."""
    dataset = load_dataset(data, limit=limit)
    results: list[dict[str, Any]] = []
    for spec in specs:
        for policy in spec.policies or ("",):
            options = [f"policy={policy}"] if policy else []
            config, _ = prepare(
                dataset, spec.name, model="digits", options=options, registry=registry
            )
            open_backend = partial(load, config, spec, registry)
            output = work / "-".join(filter(None, [spec.name, policy]))
            results.append(run_benchmark(dataset, config, open_backend, output))
            wer = percent(results[-1]["summary"]["wer"]) or "-"
            click.echo(f"{config.data}: {spec.name} {policy} WER {wer}", err=True)
    return results


def page(
    results: Sequence[dict[str, Any]],
    long: Sequence[dict[str, Any]],
    unmeasured: Sequence[tuple[str, str]],
) -> str:
    """Return the page as Markdown: one table for the set, and one for a long stream."""
    lines = ["# Benchmarks", "", f"Written by `{COMMAND}`; do not edit.", ""]
    if results:
        summary, setup = results[0]["summary"], results[0]["setup"]
        machine = results[0]["platform"]
        streams = (
            f"{summary['samples']} streams of connected digits with "
            f"{summary['wer']['reference_length']} words, {summary['audio_seconds']:.0f} s in "
            f"chunks of {setup['chunk_seconds']:g} s; normaliser {setup['normaliser']}."
        )
        described = (
            f"Machine: {machine['processor']}, {machine['cores']} cores, {machine['system']} "
            f"{machine['machine']}, Python {machine['python']}."
        )
        lines += [
            streams,
            described,
            "",
            *_table(_HEADER, map(_row, results)),
        ]
    else:
        lines.append("No backend with a `digits` checkpoint is installed.")
    if long:
        length = long[0]["summary"]["audio_seconds"] / 60
        lines += [
            "",
            "## One long stream",
            "",
            f"{length:.1f} minutes in which no pause is reported to the backend.",
            "",
            *_table(_LONG_HEADER, map(_long_row, long)),
        ]
    if unmeasured:
        missing = "; ".join(f"`{name}` ({reason})" for name, reason in unmeasured)
        lines += ["", f"Not measured on this machine: {missing}."]
    versions: dict[str, str] = {}
    for result in (*results, *long):
        versions |= result["versions"]
    lines += ["", "## How to read it", "", _READING, ""]
    if versions:
        lines += [f"Versions: {', '.join(f'{k} {v}' for k, v in sorted(versions.items()))}.", ""]
    return "\n".join(lines)


def _table(header: Iterable[str], body: Iterable[Iterable[str]]) -> list[str]:
    names = list(header)
    return [
        f"| {' | '.join(names)} |",
        f"|{'|'.join(' --- ' for _ in names)}|",
        *(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in body),
    ]


def _row(result: dict[str, Any]) -> list[str]:
    summary, setup = result["summary"], result["setup"]
    emission = summary["latency"]["emission"]["unaware"] or {}
    times = (summary["word_times"] or {}).get("start") or {}
    cer, flushes = summary["cer"]["rate"], summary["flushes"] or {}
    return [
        f"`{setup['backend']}`",
        setup["stream_options"].get("policy") or "-",
        percent(summary["wer"]) or "-",
        "-" if cer is None else f"{100 * cer:.2f} %",
        _figure(emission.get("p50"), "{:.2f} s"),
        _figure(emission.get("p90"), "{:.2f} s"),
        _figure(summary["lagging"]["long_yaal"]["unaware"], "{:.2f} s"),
        _figure(summary["stability"]["normalised_erasure"], "{:.3f}"),
        _figure(times.get("median"), "{:.0f} ms", 1000),
        _figure(times.get("bias"), "{:+.0f} ms", 1000),
        _figure(flushes.get("missing_words"), "{:.0f}"),
        _figure(summary["work"]["encoder_frames"], "{:.0f}"),
        _figure(summary["work"]["decoder_positions"], "{:.1f}"),
        _figure(summary["real_time"]["rtf"], "{:.3f}"),
    ]


def _long_row(result: dict[str, Any]) -> list[str]:
    summary, setup = result["summary"], result["setup"]
    emission = summary["latency"]["emission"]["unaware"] or {}
    growth = summary["growth"] or {}
    ratios = growth.get("last_to_second_window", {})
    return [
        f"`{setup['backend']}`",
        setup["stream_options"].get("policy") or "-",
        percent(summary["wer"]) or "-",
        _figure(emission.get("p50"), "{:.2f} s"),
        _figure(emission.get("p90"), "{:.2f} s"),
        _figure(summary["lagging"]["long_yaal"]["unaware"], "{:.2f} s"),
        _figure(summary["stability"]["normalised_erasure"], "{:.3f}"),
        _figure(summary["work"]["encoder_frames"], "{:.0f}"),
        _figure(ratios.get("encoder_frames"), "{:.2f}"),
        _figure(summary["work"]["decoder_positions"], "{:.1f}"),
        _figure(ratios.get("decoder_positions"), "{:.2f}"),
        _figure(growth.get("state_bytes_per_hour"), "{:+.2f} MiB", 2**-20),
    ]


def _figure(value: float | None, form: str, scale: float = 1.0) -> str:
    return "-" if value is None else form.format(scale * value)


if __name__ == "__main__":
    main()
