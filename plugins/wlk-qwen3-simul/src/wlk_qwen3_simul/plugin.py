"""Declare the backends of wlk-qwen3-simul, without importing a framework."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

import attrs

from wlk_core.plugins import BackendSpec, Option, hookimpl, standard_options
from wlk_qwen3_simul.languages import LANGUAGES
from wlk_qwen3_simul.models import FILES, MODELS

if TYPE_CHECKING:
    from collections.abc import Iterable

TORCH_DEVICE = standard_options.device("cpu", "cuda", "cuda:N", "mps")

REWIND_SECONDS = Option(
    name="rewind_seconds",
    type=float,
    default=4.0,  # SimulStreaming's rewind_threshold, 200 frames of 20 ms
    minimum=0.04,
    maximum=30.0,
    help="seconds that attention may jump back before the hypothesis is cut there",
    scope="stream",
    policies=("alignatt",),
    former_names=("rewind_frames", "rewind_threshold"),
)

_OPTIONS = (
    attrs.evolve(
        standard_options.ALIGNMENT_HEADS,
        help="decoder heads that attend to the spoken word: predict:layer.head,layer.head, or "
        "self:..., or a file written by wlk_qwen3_simul.detect_heads; auto takes those known for "
        "the model",
    ),
    standard_options.CACHE_DIR,
    attrs.evolve(
        standard_options.PROMPT,
        help="text of the system turn before the audio: names, spelling",
    ),
    standard_options.KEYTERMS,
    standard_options.LANGUAGES,
    standard_options.TICK_SECONDS,
    attrs.evolve(
        standard_options.BUFFER_SECONDS,
        minimum=8.0,
        help="length in seconds above which the buffer is cut after committed words, with "
        "policy=alignatt by whole windows of 8 s; auto takes what the checkpoint declares, else 12",
    ),
    Option(
        name="max_new_tokens",
        type=int,
        default=256,
        minimum=16,
        maximum=4096,
        help="most tokens of one hypothesis beyond committed text, however long its audio",
        scope="stream",
    ),
    standard_options.BORDER_SECONDS,
    REWIND_SECONDS,
)

# MLX is made for Apple Silicon; elsewhere torch is faster.
_IS_APPLE_SILICON = platform.system() == "Darwin" and platform.machine() == "arm64"


def _spec(framework: str, device: Option, *, requires: Iterable[str], **fields: Any) -> BackendSpec:
    """Return the spec of either backend; wlk-qwen3-simul[FRAMEWORK] installs what it *requires*."""
    return BackendSpec(
        api=1,
        load=f"wlk_qwen3_simul.{framework}.backend:load",
        options=(device, standard_options.dtype("float32", "float16", "bfloat16"), *_OPTIONS),
        capabilities=(
            "hypothesis",
            "word-times",
            "probabilities",
            "language-detection",
            "language-forcing",
            "speaker-turns",
            "bounded-state",
        ),
        languages=tuple(LANGUAGES),
        policies=("alignatt", "local-agreement"),
        models=MODELS,
        default_model="0.6b",
        model_files=FILES,
        max_delay=3.0,
        # For the digits checkpoint in the speech tier, on either framework.
        bounds={"wer": 0.10, "word_start_median": 0.12, "word_start_bias": 0.12},
        requires=dict.fromkeys(requires, f"pip install 'wlk-qwen3-simul[{framework}]'"),
        **fields,
    )


QWEN3_SIMUL = _spec(
    "torch",
    TORCH_DEVICE,
    name="qwen3-simul",
    summary="Simultaneous Qwen3-ASR on torch; CPU, CUDA and Apple's MPS",
    preference=10,
    requires=("torch", "transformers"),
)

QWEN3_MLX_SIMUL = _spec(
    "mlx",
    standard_options.device("cpu", "gpu"),
    name="qwen3-mlx-simul",
    summary="Simultaneous Qwen3-ASR on MLX; Apple Silicon, Linux on CPU and CUDA",
    max_concurrent_calls=1,  # all threads share one MLX stream
    preference=12 if _IS_APPLE_SILICON else 8,
    # mlx is checked first: on Linux its bare wheel cannot run, and the extra installs one that can.
    requires=("mlx", "mlx-qwen3-asr"),
)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Return the backends of this distribution."""
    return (QWEN3_MLX_SIMUL, QWEN3_SIMUL)
