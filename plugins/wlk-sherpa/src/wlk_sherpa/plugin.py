"""Declare the backend `sherpa`, without importing sherpa-onnx."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_core.plugins import BackendSpec, Option, hookimpl, standard_options

if TYPE_CHECKING:
    from collections.abc import Iterable

SHERPA = BackendSpec(
    name="sherpa",
    api=1,
    summary="streaming transducers, CTC and Paraformer on sherpa-onnx: any CPU",
    load="wlk_sherpa.backend:load",
    options=(
        attrs.evolve(
            standard_options.dtype("float32", "int8"),
            help="arithmetic of the model files to load; auto takes float32, else int8",
        ),
        attrs.evolve(
            standard_options.BEAM_SIZE,
            default=1,
            is_auto_allowed=False,
            help="hypotheses of modified beam search; 1 is greedy search, without keyterms",
            scope="backend",
        ),
        Option(
            name="cpu_threads",
            type=int,
            default=1,
            minimum=1,
            maximum=256,
            help="threads of one run of the model, which decodes a batch of streams",
        ),
        standard_options.CACHE_DIR,
        standard_options.KEYTERMS,
        Option(
            name="word_gap_seconds",
            type=float,
            minimum=0.04,
            maximum=2.0,
            is_auto_allowed=True,
            help="seconds without a token after which a word is final before the next begins; auto "
            "takes what the checkpoint declares, else 0.4",
            scope="stream",
        ),
    ),
    capabilities=(
        "hypothesis",
        "word-times",
        "probabilities",
        "speaker-turns",
        "batching",
        "bounded-state",
    ),
    models={
        "digits": "bundled",
        "zipformer-en": "csukuangfj/sherpa-onnx-streaming-zipformer-en-2023-06-26",
        "zipformer-zh-en": "csukuangfj/sherpa-onnx-streaming-zipformer-bilingual-zh-en-2023-02-20",
    },
    default_model="zipformer-en",
    model_files=(
        "*encoder*left-128*.onnx|*encoder*.onnx|*model*.onnx|*ctc*.onnx",
        "*decoder*left-128*.onnx|*decoder*.onnx",
        "*joiner*left-128*.onnx|*joiner*.onnx",
        "tokens.txt",
        "bpe.vocab|bpe.model",
        "wlk.json",
    ),
    max_delay=2.0,  # a chunk, its look-ahead, and a word of several tokens
    bounds={"wer": 0.05, "word_start_median": 0.05, "word_start_bias": 0.05},
    max_concurrent_calls=32,  # one run for 32 streams costs a fraction of 32 runs
    preference=15,
    requires={"sherpa-onnx": "pip install wlk-sherpa"},
)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Return the backend of this distribution."""
    return (SHERPA,)
