"""Declare the backend of wlk-nemotron, without importing a framework."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.plugins import BackendSpec, Option, hookimpl, standard_options
from wlk_nemotron.languages import LANGUAGES

if TYPE_CHECKING:
    from collections.abc import Iterable

NEMOTRON = BackendSpec(
    name="nemotron",
    api=1,
    summary="NVIDIA's Nemotron ASR, a streaming transducer; CPU, CUDA, MPS",
    load="wlk_nemotron.torch.backend:load",
    options=(
        standard_options.device("cpu", "cuda", "cuda:N", "mps"),
        standard_options.dtype("float32", "bfloat16", "float16"),
        standard_options.CACHE_DIR,
        Option(
            name="look_ahead_ms",
            type=int,
            minimum=80,
            maximum=1120,
            is_auto_allowed=True,
            help="milliseconds of audio that are encoded at a time: 80, 160, 320, 560 or 1120 with "
            "the published models; longer is more accurate; auto takes what the checkpoint "
            "declares",
            scope="stream",
            former_names=("att_context_size", "num_lookahead_tokens", "streaming_latency_ms"),
        ),
    ),
    capabilities=(
        "hypothesis",
        "word-times",
        "probabilities",
        "language-forcing",
        "speaker-turns",
        "batching",
        "bounded-state",
    ),
    languages=LANGUAGES,
    models={
        "digits": "bundled",
        "0.6b": "nvidia/nemotron-3.5-asr-streaming-0.6b",
        "en-0.6b": "nvidia/nemotron-speech-streaming-en-0.6b",
    },
    default_model="0.6b",
    model_files=(
        "config.json",
        "*processor_config.json",
        "tokenizer.json",
        "model*.safetensors",
        "model.safetensors.index.json",
    ),
    max_delay=3.0,  # twice the longest look-ahead: its chunk fills, and the next becomes due
    model_licences={"0.6b": "openmdw-1.1"},
    max_concurrent_calls=64,  # a pass over 64 streams costs a GPU little more than over one
    bounds={"wer": 0.05, "word_start_median": 0.06, "word_start_bias": 0.06},
    preference=15,
    requires=dict.fromkeys(("torch", "transformers"), "pip install wlk-nemotron"),
)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Return the backends of this distribution."""
    return (NEMOTRON,)
