"""
Write the table of all installed backends on the digits set: python -m wlk_bench.docs --output PAGE.

Every backend that carries a `digits` checkpoint and that works here is measured with each of its
policies.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from wlk_bench.data import load_dataset
from wlk_bench.report import describe, markdown_table, percent
from wlk_bench.runner import run_benchmark
from wlk_bench.setup import load, prepare
from wlk_core.errors import BackendUnavailable, WLKError
from wlk_core.registry import Registry, missing_requirements

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wlk_bench.data import Dataset
    from wlk_core.backend import BackendSpec

__all__ = ["main", "measure_all", "page", "survey"]

COMMAND = "nox -s table"
_CODED = frozenset({"scripted"})  # reads coded audio: it has no model to be measured

_HEADER = (
    "backend", "policy", "WER [95 %]", "CER", "emission p50", "p90", "LongYAAL", "erasure",
    "word start median", "bias", "missing", "frames", "positions", "RTF",
)  # fmt: skip

_LONG_HEADER = (
    "backend", "policy", "WER [95 %]", "emission p50", "p90", "LongYAAL", "erasure", "frames",
    "last minute / second", "positions", "last minute / second", "state an hour",
)  # fmt: skip
_LONG_MINUTES = 5

_READING = """\
WER and CER are of the whole set, with a 95 % bootstrap interval over the streams.
Emission is from the true end of a word to its commit, in audio time (computation-unaware), over
the words that were recognised; LongYAAL is likewise.  Erasure is words taken back from the screen
per word of the final text.  Missing are words that a flush left out.  Frames are encoder frames and
positions decoder positions per second of audio: they do not depend on the machine.  RTF does:
it is of the machine above, whatever else ran on it, and is no claim about others.

"last minute / second" compares the work of the last minute with that of the second one.
Where nothing was wrong the upper end of the interval is the binomial one.

A `digits` checkpoint is a tiny model that hears ten English words, or a grammar of them, made to
test streaming with.  The set is of the synthesisers that the models were trained on, in other
settings: few errors are expected of those.  The table says what a backend and its policy make of
their model, nothing about real checkpoints; rows of other models do not rank their backends."""


@click.command()
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), required=True)
@click.option("--limit", type=int, help="First streams only, for a quick look.")
@click.option(
    "--work",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep logs and results here; an interrupted table goes on where it was.",
)
def main(output: Path, limit: int | None, work: Path | None) -> None:
    """Measure every installed backend on the digits set and write the page OUTPUT."""
    registry = Registry()
    minutes = 1 if limit else _LONG_MINUTES
    with TemporaryDirectory() as temporary:
        place = work or Path(temporary)
        try:
            specs, unmeasured = survey(registry)
            for name, reason in unmeasured:
                click.echo(f"{name} is left out: {reason}", err=True)
            short = _told(measure_all(registry, specs, place / "short", "digits", limit=limit))
            long = _told(measure_all(registry, specs, place / "long", f"digits:{minutes}"))
        except WLKError as error:
            raise click.ClickException(" ".join(str(error).split())) from error
    output.write_text(page(short, long, unmeasured), encoding="utf-8")
    click.echo(f"{output}: {len(short)} rows")


def survey(registry: Registry) -> tuple[list[BackendSpec], list[tuple[str, str]]]:
    """
    Return the backends to be measured, and the names of those that do not work here, with why.

    Backends without a `digits` checkpoint are in neither: an endpoint has none of its own.
    """
    usable: list[BackendSpec] = []
    others: list[tuple[str, str]] = []
    for spec in registry.specs():
        if "digits" not in spec.models or spec.name in _CODED:
            continue
        if missing := missing_requirements(spec):
            others.append((spec.name, f"needs {', '.join(missing)}"))
            continue
        try:
            registry.load_backend(spec.name, "digits").close()
        except BackendUnavailable as error:  # what is required is there and does not run here
            others.append((spec.name, " ".join(str(error).split())))
        else:
            usable.append(spec)
    return usable, others


def measure_all(
    registry: Registry,
    specs: Sequence[BackendSpec],
    work: Path,
    data: str,
    *,
    limit: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the result of each backend with each policy that it declares."""
    dataset = load_dataset(data, limit=limit)
    for spec in specs:
        for policy in spec.policies or (None,):
            yield _measure(registry, spec, dataset, policy, work)


def page(
    results: Sequence[dict[str, Any]],
    long: Sequence[dict[str, Any]],
    unmeasured: Sequence[tuple[str, str]],
) -> str:
    """Return the page as Markdown: a table of the set, and one of a long stream."""
    lines = ["# Benchmarks", "", f"Written by `{COMMAND}`; do not edit.", ""]
    if results:
        summary, setup = results[0]["summary"], results[0]["setup"]
        streams = (
            f"{summary['samples']} streams of connected digits with "
            f"{summary['wer']['reference_length']} words, {summary['audio_seconds']:.0f} s in "
            f"chunks of {setup['chunk_seconds']:g} s; normaliser {setup['normaliser']}."
        )
        lines += [
            streams,
            f"Machine: {describe(results[0]['platform'])}.",
            "",
            *markdown_table(_HEADER, map(_row, results)),
        ]
    else:
        lines.append("No backend with a `digits` checkpoint is installed.")
    if long:
        length = long[0]["summary"]["audio_seconds"] / 60
        lines += [
            "",
            "## One long stream",
            "",
            f"{length:.1f} minutes without a pause that the backend is told of.",
            "",
            *markdown_table(_LONG_HEADER, map(_long_row, long)),
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


def _told(results: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all results and say how each came out as soon as it is there."""
    known: list[dict[str, Any]] = []
    for result in results:
        known.append(result)
        setup, wer = result["setup"], percent(result["summary"]["wer"]) or "-"
        policy = setup["stream_options"].get("policy", "")
        click.echo(f"{setup['data']}: {setup['backend']} {policy} WER {wer}", err=True)
    return known


def _measure(
    registry: Registry, spec: BackendSpec, dataset: Dataset, policy: str | None, work: Path
) -> dict[str, Any]:
    options = {} if policy is None else {"policy": policy}
    setup, _ = prepare(dataset, spec.name, model="digits", options=options, registry=registry)
    return run_benchmark(
        dataset,
        setup,
        lambda: load(setup, spec, registry),
        work / "-".join(filter(None, [spec.name, policy])),
    )


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
    ratios, state = growth.get("last_to_second_window", {}), growth.get("state_bytes") or {}
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
        _figure(state.get("per_hour"), "{:+.2f} MiB", 2**-20),
    ]


def _figure(value: float | None, form: str, scale: float = 1.0) -> str:
    return "-" if value is None else form.format(scale * value)


if __name__ == "__main__":
    main()
