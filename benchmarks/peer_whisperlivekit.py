"""
Measure the published whisperlivekit on the audio and schedule of benchmarks/whisper.py.

With --data it runs the recordings of benchmarks/real_speech.py instead, whose --peer prints the
results.

It runs in an environment of its own (`nox -s peer`) on the same checkpoint, in the
formats of its own loaders.  Its online processors are driven as its server does, one chunk of audio
at a time, without voice activity detection.  The models are counted from outside and not changed.
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
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, Self, cast

import attrs
import numpy as np
from streams import Row, measure, print_heading, print_row, stream_of

from wlk_bench.config import RunConfig
from wlk_bench.data import load_dataset
from wlk_bench.environment import detect_versions
from wlk_bench.runner import run_benchmark
from wlk_core import ASRToken, Emission, StreamStats, Transcript
from wlk_core.processor import SAMPLE_RATE
import wlk_whisper
from wlk_whisper_digits import checkpoint_directory

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from wlk_core.backend import Backend

VERSION = "0.2.26"
CTRANSLATE2 = Path(wlk_whisper.__file__).parent / "digits" / "ctranslate2"
TRANSFORMERS = checkpoint_directory()
SOT_LENGTH = 4  # tokens before the text of an alignment: start, language, task, no timestamps
# Everything else has the defaults of the package.
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
        """Whether the last chunk is undecoded; the package would decode it again on every call."""
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
        """End the stream as the server does: with `finish`, or else with `start_silence`."""
        has_finish = hasattr(self._inner, "finish")
        return self._call(self._inner.finish if has_finish else self._inner.start_silence)

    def get_buffer(self) -> Transcript:
        """Return an empty hypothesis, because it is not measured."""
        return Transcript()

    def close(self) -> None:
        """Do nothing: the engine is shared, and there is nothing else to release."""

    def _call(self, call: Callable[[], tuple[list[Any], float]]) -> Emission:
        began = perf_counter()
        tokens, _ = call()
        self._busy_seconds += perf_counter() - began
        return self._emission(
            tuple(ASRToken(float(token.start), float(token.end), token.text) for token in tokens)
        )

    def _emission(self, committed: tuple[ASRToken, ...]) -> Emission:
        return Emission(committed, self._samples / SAMPLE_RATE, 0.0)


@attrs.frozen
class PublishedBackend:
    """The part of a backend that run_benchmark uses; streams share counters, so run one by one."""

    open_stream: Callable[[], PublishedStream]

    def __enter__(self) -> Self:
        """Return the backend."""
        return self

    def __exit__(self, *_failure: object) -> None:
        """Leave the model to the process."""

    def warmup(self) -> None:
        """Feed a stream a second of silence."""
        stream = self.open_stream()
        stream.insert_audio_chunk(np.zeros(SAMPLE_RATE, dtype=np.float32), 1.0)
        stream.process_iter()

    def create_processor(self, **_options: Any) -> PublishedStream:
        """Return a new stream, with the options of the model."""
        return self.open_stream()


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
        """Count the prompt, and the steps of the best text times the number of beams or samples."""
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
        """Count the text, which is decoded once more for its word times."""
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

    if hasattr(model, "encoder"):  # otherwise faster-whisper encodes
        model.encoder.register_forward_pre_hook(encoding)
    model.decoder.register_forward_pre_hook(decoding)


def alignment_heads(directory: Path) -> str:
    """Return the alignment heads of a checkpoint as the package takes them: a packed mask."""
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    generation = json.loads((directory / "generation_config.json").read_text(encoding="utf-8"))
    mask = np.zeros((config["decoder_layers"], config["decoder_attention_heads"]), dtype=bool)
    for layer, head in generation["alignment_heads"]:
        mask[layer, head] = True
    return base64.b85encode(gzip.compress(mask.tobytes())).decode()


def check_version() -> None:
    """Raise SystemExit if another release, or none, is installed."""
    try:
        version = metadata.version("whisperlivekit")
    except metadata.PackageNotFoundError:
        version = "none"
    if version != VERSION:
        raise SystemExit(f"expected whisperlivekit {VERSION}, found {version}; run: nox -s peer")


def load_engine(options: dict[str, Any]) -> Any:
    """Return the engine of the package, which all its streams share."""
    from whisperlivekit.core import TranscriptionEngine  # noqa: PLC0415 -- heavy

    TranscriptionEngine.reset()
    return TranscriptionEngine(**COMMON, **options)


def open_stream(engine: Any, counts: Counts) -> PublishedStream:
    """Return a new stream of *engine*; *counts* receives its work."""
    from whisperlivekit.core import online_factory  # noqa: PLC0415 -- heavy

    return PublishedStream(inner=online_factory(engine.args, engine.asr), counts=counts)


def counted_backend(options: dict[str, Any]) -> PublishedBackend:
    """Return the package's own engine, with its work counted."""
    engine, counts = load_engine(options), Counts()
    whisper = engine.asr.model if options["backend"] == "faster-whisper" else engine.asr.fw_encoder
    if whisper:
        whisper.model = CountedCTranslate2(whisper.model, counts)
    if options["backend"] != "faster-whisper":
        counted_torch(engine.asr.shared_model, counts)
    return PublishedBackend(lambda: open_stream(engine, counts))


def contenders(
    ctranslate2: Path, transformers: Path, *, encodes_fast: bool = False
) -> dict[str, dict[str, Any]]:
    """
    Return the options of the package's two policies on a checkpoint, by row name.

    With `encodes_fast` AlignAtt has the package's default encoder, faster-whisper, not torch.
    """
    encoder = {"backend": "auto", "encoder_model_path": str(ctranslate2)} if encodes_fast else {}
    return {
        f"whisperlivekit {VERSION} localagreement": {
            **LOCAL_AGREEMENT,
            "model_path": str(ctranslate2),
        },
        f"whisperlivekit {VERSION} alignatt": {
            **ALIGNATT,
            **encoder,
            "model_path": str(transformers),
            "custom_alignment_heads": alignment_heads(transformers),
        },
    }


def measure_recordings(
    name: str, options: dict[str, Any], data: str, chunk_seconds: float, output: Path
) -> None:
    """Write the result of wlk-bench on a data set into a folder of *output*."""
    dataset = load_dataset(data)
    config = RunConfig(
        backend=name,
        model=options["model_path"],
        language="en",
        task="transcribe",
        backend_options={},
        stream_options={**COMMON, **options},
        data=dataset.name,
        mode=dataset.mode,
        chunk_seconds=chunk_seconds,
        is_paced=False,
        streams=1,
        normaliser="english",
        versions=detect_versions(["whisperlivekit", "faster-whisper", "ctranslate2", "torch"]),
    )
    run_benchmark(
        dataset,
        config,
        lambda: cast("Backend", counted_backend(options)),
        output / f"{name}, {chunk_seconds:g} s",
        observe=print,
        timer=process_time,
    )


def measure_digits(chosen: dict[str, dict[str, Any]], minutes: float) -> None:
    """Measure on the stream of benchmarks/whisper.py and print the rows."""
    material = stream_of(60.0 * minutes)
    width = max(map(len, chosen))
    print_heading(width)
    rows: list[Row] = []
    for name, options in chosen.items():
        rows.append(measure(name, counted_backend(options).create_processor(), material))
        print_row(rows[-1], first=rows[0], width=width)


def main() -> None:
    """Measure on digits, or on recordings."""
    parser = argparse.ArgumentParser(description="the cost of the published whisperlivekit")
    parser.add_argument("--minutes", type=float, default=10.0, help="of audio; 10 by default")
    parser.add_argument("--data", help="recordings instead of digits: manifest:FILE")
    parser.add_argument("--ctranslate2", type=Path, default=CTRANSLATE2, help="a CTranslate2 model")
    parser.add_argument(
        "--transformers",
        type=Path,
        default=TRANSFORMERS,
        help="the same model for its AlignAtt; an English one in a folder whose name ends in .en",
    )
    parser.add_argument("--policy", choices=("localagreement", "alignatt"), help="only this one")
    parser.add_argument(
        "--chunk-seconds", type=float, nargs="+", default=[1.0], help="(--data) 1 by default"
    )
    parser.add_argument("--output", type=Path, help="(--data) a folder, required")
    arguments = parser.parse_args()
    if arguments.data and not arguments.output:
        parser.error("--data requires --output FOLDER")
    check_version()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as benchmarks/whisper.py
    logging.disable(logging.INFO)  # the package logs several lines per tick
    both = contenders(
        arguments.ctranslate2, arguments.transformers, encodes_fast=bool(arguments.data)
    )
    chosen = {
        name: options
        for name, options in both.items()
        if arguments.policy in (None, name.split()[-1])
    }
    if not arguments.data:
        measure_digits(chosen, arguments.minutes)
        return
    for chunk_seconds in arguments.chunk_seconds:
        for name, options in chosen.items():
            measure_recordings(name, options, arguments.data, chunk_seconds, arguments.output)


if __name__ == "__main__":
    main()
