"""
Compare errors, latency and cost of Whisper backends on recordings of speech.

    python benchmarks/real_speech.py MANIFEST --model faster-whisper=DIR --model whisper=DIR \
        --output FOLDER

MANIFEST is a file written by `tools/real/word_times.py`, and FOLDER receives a result of wlk-bench
for each row.  An interrupted run is continued; rows that are complete are only printed.
"""

from __future__ import annotations

import argparse
from functools import partial
import os
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any, cast

import attrs
import numpy as np
from peer_whisperlivekit import CountedCTranslate2, Counts, PublishedBackend, PublishedStream

from wlk_bench.config import load, prepare
from wlk_bench.data import load_dataset
from wlk_bench.results import read_result
from wlk_bench.runner import run_benchmark
from wlk_core import ASRToken, BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from wlk_bench.config import RunConfig
    from wlk_bench.data import Dataset
    from wlk_core.backend import Backend

LANGUAGE = "en"
WHOLE_FILE = "whole-file"  # a contender: faster-whisper itself, on each recording as a whole
CONTENDERS = (
    "faster-whisper",
    "whisper,policy=alignatt",
    "whisper,policy=local-agreement",
    f"{WHOLE_FILE},beam_size=1",
    f"{WHOLE_FILE},beam_size=5",
)
HEADING = (
    "     WER (95 % range)  words wrong  inserted  non-words  latency p50      p95  start error"
    "  frames/frame  positions/s  forwards/s  CPU s/s"
)


@attrs.define
class WholeFile:
    """faster-whisper on a whole recording, with the interface of the peer's online processors."""

    model: Any
    beam_size: int
    _parts: list[NDArray[np.float32]] = attrs.field(factory=list)

    def insert_audio_chunk(self, audio: NDArray[np.float32], _end: float | None) -> None:
        """Append a chunk."""
        self._parts.append(audio)

    def process_iter(self) -> tuple[list[ASRToken], float]:
        """Return no words before the end."""
        return [], 0.0

    def finish(self) -> tuple[list[ASRToken], float]:
        """Transcribe the recording."""
        segments, _ = self.model.transcribe(
            np.concatenate(self._parts),
            language=LANGUAGE,
            beam_size=self.beam_size,
            word_timestamps=True,
        )
        words = [word for segment in segments for word in segment.words]
        return [ASRToken(float(w.start), float(w.end), w.word) for w in words], 0.0


def whole_file_backend(config: RunConfig) -> Backend:
    """Return faster-whisper for whole recordings, with its work counted."""
    from faster_whisper import WhisperModel  # noqa: PLC0415 -- heavy

    model, counts = WhisperModel(config.model, device="cpu", compute_type="float32"), Counts()
    model.model = CountedCTranslate2(model.model, counts)
    inner = partial(WholeFile, model, config.stream_options["beam_size"])
    return cast("Backend", PublishedBackend(lambda: PublishedStream(inner=inner(), counts=counts)))


def measure(
    dataset: Dataset, contender: str, models: Mapping[str, str], chunk_seconds: float, output: Path
) -> dict[str, Any]:
    """Return the result of a contender, BACKEND[,KEY=VALUE...], from its folder if it exists."""
    name, *options = contender.split(",")
    is_whole = name == WHOLE_FILE
    backend = "faster-whisper" if is_whole else name
    config, spec = prepare(
        attrs.evolve(dataset, mode="single-shot") if is_whole else dataset,
        backend,
        model=models.get(backend),
        language=LANGUAGE,
        options=options,
        chunk_seconds=chunk_seconds,
        normaliser_name="english",
    )
    open_backend = partial(whole_file_backend, config) if is_whole else partial(load, config, spec)
    return run_benchmark(dataset, config, open_backend, output, timer=process_time)


def print_row(name: str, result: Mapping[str, Any], known: frozenset[str], width: int) -> None:
    """Print a row; *known* has the words that count as English."""
    summary = result["summary"]
    wer, delays = summary["wer"], summary["latency"]["emission"]["unaware"]
    start, work = summary["word_times"], summary["work"]
    spoken = {w for sample in result["samples"] for w in sample["reference_normalised"].split()}
    written = [w for sample in result["samples"] for w in sample["hypothesis_normalised"].split()]
    strange = [w for w in written if w.isalpha() and w not in spoken and w not in known]
    interval = "" if wer["low"] is None else f"({100 * wer['low']:.1f}-{100 * wer['high']:.1f})"
    is_live = delays is not None and result["setup"]["chunk_seconds"] is not None
    cells = (
        f"{100 * wer['rate']:6.2f} % {interval:>12}",
        f"{wer['errors']:5}/{wer['reference_length']:<5}",
        f"{wer['insertions']:8}",
        f"{len(strange) if known else '-':>9}",
        f"{delays['p50']:9.2f} s {delays['p95']:6.2f} s" if is_live else f"{'-':>11} {'-':>8}",
        f"{start['start']['median']:9.2f} s" if start else f"{'-':>11}",
        f"{(work['encoder_frames'] or 0) / 100:12.1f}",
        f"{work['decoder_positions'] or 0:11.1f}",
        f"{work['decoder_forwards'] or 0:10.1f}",
        f"{summary['real_time']['rtf']:7.2f}",
    )
    print(f"{name:{width}}  {'  '.join(cells)}", flush=True)


def main() -> None:
    """Measure and print the rows."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # each engine then uses one core
    parser = argparse.ArgumentParser(description="Whisper on recordings of speech, side by side")
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--output", type=Path, required=True, help="a folder for the results")
    parser.add_argument(
        "--model", action="append", default=[], metavar="BACKEND=DIRECTORY", help="its checkpoint"
    )
    parser.add_argument(
        "--contender",
        action="append",
        metavar="BACKEND[,KEY=VALUE...]",
        help=f"instead of {' '.join(CONTENDERS)}",
    )
    parser.add_argument("--chunk-seconds", type=float, nargs="+", default=[1.0])
    parser.add_argument(
        "--peer",
        type=Path,
        action="append",
        default=[],
        help="also print the results in this output folder of benchmarks/peer_whisperlivekit.py",
    )
    parser.add_argument("--lexicon", type=Path, help="English words, one at the start of each line")
    arguments = parser.parse_args()
    models = dict(text.split("=", 1) for text in arguments.model)
    known: frozenset[str] = frozenset()
    if arguments.lexicon:
        lines = arguments.lexicon.read_text(encoding="utf-8").splitlines()
        known = frozenset(line.split()[0].lower() for line in lines if line.strip())
    dataset = load_dataset(f"manifest:{arguments.manifest}")
    peers = [path for folder in arguments.peer for path in sorted(folder.glob("*/result.json"))]
    contenders = arguments.contender or CONTENDERS
    width = max(len(name) for name in [*contenders, *(path.parent.name for path in peers)]) + 7
    show = partial(print_row, known=known, width=width)
    print(
        f"{dataset.name}: {len(dataset.samples)} recordings, "
        f"{sum(sample.seconds for sample in dataset.samples):.0f} s\n{'':{width}}{HEADING}"
    )
    whole = [contender for contender in contenders if contender.startswith(WHOLE_FILE)]
    live = [contender for contender in contenders if contender not in whole]
    rows = [
        (f"{contender}, {seconds:g} s", contender, seconds)
        for seconds in arguments.chunk_seconds
        for contender in live
    ]
    rows += [(contender, contender, 1.0) for contender in whole]
    for name, contender, seconds in rows:
        try:
            show(name, measure(dataset, contender, models, seconds, arguments.output / name))
        except BackendUnavailable as error:
            print(f"left out: {error}")
    for path in peers:
        show(path.parent.name, read_result(path))


if __name__ == "__main__":
    main()
