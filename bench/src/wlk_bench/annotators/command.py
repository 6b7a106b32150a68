"""The command `wlk-bench annotator`."""

from __future__ import annotations

from contextlib import closing
from importlib import import_module
import json
from pathlib import Path
from typing import Any

import click

from wlk_bench.errors import DataError, extra
from wlk_bench.options import FiniteRange, output_option
from wlk_bench.report import grid, print_table
from wlk_live.cli.options import pairs_option

ANNOTATOR_SCHEMA = "wlk-bench-annotator/1"
#: For each kind of annotator, the module that measures it and the reference that it requires.
_MEASURES = {
    "diarizer": ("speakers", "turns"),
    "turn-detector": ("turns", "turns"),
    "translator": ("translation", "words"),
}


@click.command()
@click.argument("name", metavar="NAME[=MODEL]")
@click.argument("manifest", type=click.Path(path_type=Path, exists=True))
@pairs_option("--option", "options", "An option of the annotator")
@click.option("--limit", type=click.IntRange(min=1), help="Use at most this many recordings.")
@click.option("--chunk-seconds", type=FiniteRange(0.01, 60), default=0.1, show_default=True,
              help="Seconds of audio in a chunk.")  # fmt: skip
@output_option(help="Write the figures to this file, as JSON.")
def annotator(
    *,
    name: str,
    manifest: Path,
    options: tuple[str, ...],
    limit: int | None,
    chunk_seconds: float,
    output: Path | None,
) -> None:
    """
    Measure a diarizer, a turn detector or a translator.

    MANIFEST is JSON lines with "audio" and, in seconds, "turns": [["ann", 0.3, 4.1], ...]; for a
    translator, which is fed in real time, "words": [["what", 0.3, 0.5], ...], and "translation"
    for chrF and BLEU.
    """
    from wlk_bench.annotators.playing import play  # noqa: PLC0415 -- imports numpy
    from wlk_bench.data import load_dataset  # noqa: PLC0415 -- as above
    from wlk_bench.environment import describe_platform, detect_versions  # noqa: PLC0415 -- as above
    from wlk_core.options import parse_pairs  # noqa: PLC0415 -- `--help` needs none
    from wlk_core.registry import Registry  # noqa: PLC0415 -- as above

    registry = Registry()
    kind: Any = registry.model_spec(name.partition("=")[0]).kind
    if kind not in _MEASURES:
        raise DataError(f"expected an annotator, got the {kind} {name}; use wlk-bench run")
    subject, needs = _MEASURES[kind]
    with extra("annotators"):
        measures = import_module(f"wlk_bench.annotators.{subject}")
    dataset = load_dataset(f"manifest:{manifest}", limit=limit)
    for sample in dataset.samples:
        if not (sample.turns if needs == "turns" else sample.reference.words):
            raise DataError(f'expected "{needs}" of {sample.id} in {manifest}, got none')
    with closing(registry.load_annotator(kind, name, **parse_pairs(options))) as loaded:
        played = [(each, play(each, kind, loaded, chunk_seconds)) for each in dataset.samples]
    figures = {"recordings": len(played), **measures.figures(played)}
    table = ((label, _shown(value)) for label, value in figures.items())
    print_table(grid(f"{name.partition('=')[0]} on {dataset.name}", table))
    if output is not None:
        setup = {"annotator": name, "options": list(options), "data": dataset.name}
        report = {
            "schema": ANNOTATOR_SCHEMA,
            "setup": {**setup, "chunk_seconds": chunk_seconds},
            "platform": describe_platform(),
            "versions": detect_versions(),
            "summary": figures,
        }
        output.write_text(json.dumps(report, ensure_ascii=False) + "\n", encoding="utf-8")


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.items())
    if isinstance(value, float):
        return f"{value:.3f}"
    return "-" if value is None else str(value)
