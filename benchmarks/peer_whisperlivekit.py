"""
The cost of the published whisperlivekit on the audio and schedule of benchmarks/whisper.py.

It runs in an environment of its own (`nox -s whisperlivekit`) on the same checkpoint, in the
formats of its own loaders.  Its online processors are driven as by its server, a second of audio at
a time, without voice activity detection.  The models are counted from outside and not changed.
"""

from __future__ import annotations

import argparse
import base64
import gzip
from importlib import metadata
import json
import logging
import os
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import attrs
from digit_streams.material import stream_of
from digit_streams.row import Row, measure, print_heading, print_row, write_rows
import numpy as np

from wlk_bench.environment import detect_versions
from wlk_core import ASRToken, Emission, StreamStats, Transcript
from wlk_core.processor import SAMPLE_RATE
import wlk_whisper
from wlk_whisper_digits import checkpoint_directory

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

VERSION = "0.2.26"
CTRANSLATE2 = Path(wlk_whisper.__file__).parent / "digits" / "ctranslate2"
TRANSFORMERS = checkpoint_directory()
SOT_LENGTH = 4  # tokens before the text of an alignment: start, language, task, no timestamps
# Otherwise the defaults of the package.
COMMON = {"lan": "en", "vac": False, "warmup_file": ""}
LOCAL_AGREEMENT = {
    "backend_policy": "localagreement",
    "backend": "faster-whisper",
    "model_path": str(CTRANSLATE2),
}
ALIGNATT = {
    "backend_policy": "simulstreaming",
    "backend": "whisper",
    "model_path": str(TRANSFORMERS),
}


@attrs.define
class Counts:
    """The work of the models so far; see wlk_core.StreamStats."""

    encoder_frames: int = 0
    decoder_positions: int = 0
    decoder_forwards: int = 0


@attrs.define
class PublishedStream:
    """Adapt an online processor of the package to the one that wlk-bench records."""

    _inner: Any = attrs.field(alias="inner")
    _counts: Counts = attrs.field(alias="counts")
    _samples: int = 0
    _is_due: bool = False
    _busy_seconds: float = 0.0

    @property
    def has_backlog(self) -> bool:
        """Whether a chunk waits: the package decodes once a chunk, and again if called again."""
        return self._is_due

    @property
    def stats(self) -> StreamStats:
        """The counters so far."""
        return StreamStats(**attrs.asdict(self._counts), busy_seconds=self._busy_seconds)

    def insert_audio_chunk(
        self, audio: NDArray[np.float32], audio_stream_end_time: float | None = None
    ) -> None:
        """Append a chunk."""
        self._samples += len(audio)
        self._inner.insert_audio_chunk(audio, audio_stream_end_time)
        self._is_due = True

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: ARG002, FBT001, FBT002 -- pinned
        """Decode the last chunk."""
        self._is_due = False
        return self._call(self._inner.process_iter)

    def finish(self) -> Emission:
        """End the stream as the server does: by finish, or by a silence if there is no finish."""
        return self._call(getattr(self._inner, "finish", self._inner.start_silence))

    def get_buffer(self) -> Transcript:
        """Return nothing, because the hypothesis is not measured."""
        return Transcript()

    def _call(self, call: Callable[[], tuple[list[Any], float]]) -> Emission:
        began = perf_counter()
        tokens, _ = call()
        self._busy_seconds += perf_counter() - began
        return self._emission(
            tuple(ASRToken(float(token.start), float(token.end), token.text) for token in tokens)
        )

    def _emission(self, committed: tuple[ASRToken, ...]) -> Emission:
        return Emission(committed, self._samples / SAMPLE_RATE, 0.0)


class CountedCTranslate2:
    """A ctranslate2 Whisper that counts its inputs and passes everything on to the model."""

    def __init__(self, model: Any, counts: Counts) -> None:
        self._model = model
        self._counts = counts

    def __getattr__(self, name: str) -> Any:
        """Return the attribute of the model."""
        return getattr(self._model, name)

    def encode(self, features: Any, **options: Any) -> Any:
        """Count mel frames, padding included."""
        self._counts.encoder_frames += features.shape[0] * features.shape[-1]
        return self._model.encode(features, **options)

    def generate(self, encoded: Any, prompts: list[list[int]], **options: Any) -> Any:
        """Count the prompts, and the steps of the best text for every beam or sample."""
        results = self._model.generate(encoded, prompts, **options)
        rows = max(options.get("beam_size", 5), options.get("num_hypotheses", 1))
        for prompt, result in zip(prompts, results, strict=True):
            steps = len(result.sequences_ids[0]) + 1
            self._counts.decoder_positions += len(prompt) + steps * rows
            self._counts.decoder_forwards += 1 + steps
        return results

    def align(
        self, encoded: Any, start: Any, texts: list[list[int]], *rest: Any, **options: Any
    ) -> Any:
        """Count the text that is decoded once more for the times of its words."""
        self._counts.decoder_positions += sum(SOT_LENGTH + len(text) for text in texts)
        self._counts.decoder_forwards += 1
        return self._model.align(encoded, start, texts, *rest, **options)


def counted_torch(model: Any, counts: Counts) -> None:
    """Count the inputs of the package's own torch model."""

    def encoding(_module: Any, inputs: tuple[Any, ...]) -> None:
        counts.encoder_frames += inputs[0].shape[0] * inputs[0].shape[-1]

    def decoding(_module: Any, inputs: tuple[Any, ...]) -> None:
        counts.decoder_positions += inputs[0].numel()
        counts.decoder_forwards += 1

    model.encoder.register_forward_pre_hook(encoding)
    model.decoder.register_forward_pre_hook(decoding)


def alignment_heads() -> str:
    """Return the alignment heads of the checkpoint in the form of the package: a packed mask."""
    directory = TRANSFORMERS
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    generation = json.loads((directory / "generation_config.json").read_text(encoding="utf-8"))
    mask = np.zeros((config["decoder_layers"], config["decoder_attention_heads"]), dtype=bool)
    for layer, head in generation["alignment_heads"]:
        mask[layer, head] = True
    return base64.b85encode(gzip.compress(mask.tobytes())).decode()


def check_version() -> None:
    """Raise SystemExit where another release, or none, is installed."""
    try:
        found = metadata.version("whisperlivekit")
    except metadata.PackageNotFoundError:
        found = "none"
    if found != VERSION:
        raise SystemExit(
            f"expected whisperlivekit {VERSION}, found {found}; run: nox -s whisperlivekit"
        )


def load_engine(options: dict[str, Any]) -> Any:
    """Return the engine of the package, which all its streams share."""
    from whisperlivekit.core import TranscriptionEngine  # noqa: PLC0415 -- heavy

    TranscriptionEngine.reset()
    return TranscriptionEngine(**COMMON, **options)


def open_stream(engine: Any, counts: Counts) -> PublishedStream:
    """Return another stream of *engine*, whose work *counts* counts."""
    from whisperlivekit.core import online_factory  # noqa: PLC0415 -- heavy

    return PublishedStream(inner=online_factory(engine.args, engine.asr), counts=counts)


def opened(options: dict[str, Any]) -> PublishedStream:
    """Return a stream of the package on its own engine, counted."""
    engine, counts = load_engine(options), Counts()
    if options["backend"] == "faster-whisper":
        whisper = engine.asr.model
        whisper.model = CountedCTranslate2(whisper.model, counts)
    else:
        counted_torch(engine.asr.shared_model, counts)
    return open_stream(engine, counts)


def contenders() -> dict[str, dict[str, Any]]:
    """Return the options of its two policies, by the names of their rows."""
    return {
        f"whisperlivekit {VERSION} localagreement": LOCAL_AGREEMENT,
        f"whisperlivekit {VERSION} alignatt": {
            **ALIGNATT,
            "custom_alignment_heads": alignment_heads(),
        },
    }


def main() -> None:
    """Measure, print and write the rows for benchmarks/whisper.py --peer."""
    parser = argparse.ArgumentParser(description="the cost of the published whisperlivekit")
    parser.add_argument("--minutes", type=float, default=10.0, help="of audio; 10 by default")
    parser.add_argument("--output", type=Path, help="write the rows as JSON")
    arguments = parser.parse_args()
    check_version()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as benchmarks/whisper.py
    logging.disable(logging.INFO)  # it logs several lines a tick
    material = stream_of(60.0 * arguments.minutes)
    width = max(map(len, contenders()))
    print_heading(width)
    rows: list[Row] = []
    for name, options in contenders().items():
        rows.append(measure(name, opened(options), material))
        print_row(rows[-1], first=rows[0], width=width)
        if arguments.output:
            write_rows(arguments.output, rows, versions=detect_versions(["whisperlivekit"]))


if __name__ == "__main__":
    main()
