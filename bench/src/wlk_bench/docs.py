"""
Write the table of all installed backends on the digits set: python -m wlk_bench.docs --output PAGE.

Every backend that carries a `digits` checkpoint is measured with each of its policies.
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
from wlk_core.errors import WLKError
from wlk_core.registry import Registry, missing_requirements

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wlk_bench.data import Dataset
    from wlk_core.backend import BackendSpec

__all__ = ["main", "measure_all", "page"]

COMMAND = "python -m wlk_bench.docs --output docs/benchmarks.md"
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

The `digits` checkpoints are tiny models that hear ten English words, made to test streaming with,
and the set is of the synthesisers they were trained on, in other settings: few errors are expected.
The table says what a backend and its policy make of a model, nothing about real checkpoints."""


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
            short = list(measure_all(registry, place / "short", "digits", limit=limit))
            long = list(measure_all(registry, place / "long", f"digits:{minutes}"))
        except WLKError as error:
            raise click.ClickException(" ".join(str(error).split())) from error
    output.write_text(page(short, long, _unmeasured(registry.specs())), encoding="utf-8")
    click.echo(f"{output}: {len(short)} rows")


def measure_all(
    registry: Registry, work: Path, data: str, *, limit: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the result of every usable backend with each of its policies, by name."""
    dataset = load_dataset(data, limit=limit)
    for spec in registry.specs():
        if _is_measured(spec) and not missing_requirements(spec):
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
        missing = "; ".join(f"`{name}` (needs {what})" for name, what in unmeasured)
        lines += ["", f"Not measured on this machine: {missing}."]
    versions: dict[str, str] = {}
    for result in (*results, *long):
        versions |= result["versions"]
    lines += ["", "## How to read it", "", _READING, ""]
    if versions:
        lines += [f"Versions: {', '.join(f'{k} {v}' for k, v in sorted(versions.items()))}.", ""]
    return "\n".join(lines)


def _is_measured(spec: BackendSpec) -> bool:
    return "digits" in spec.models and spec.name not in _CODED


def _unmeasured(specs: Sequence[BackendSpec]) -> list[tuple[str, str]]:
    return [
        (spec.name, ", ".join(missing))
        for spec in specs
        if _is_measured(spec) and (missing := missing_requirements(spec))
    ]


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
