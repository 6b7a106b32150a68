"""The backends of wlk-qwen3-simul: declarations only, which import no framework."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import attrs

from wlk_core.plugins import BackendSpec, Option, hookimpl, standard_options
from wlk_qwen3_simul.languages import LANGUAGES
from wlk_qwen3_simul.models import FILES, MODELS

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["QWEN3_MLX_SIMUL", "QWEN3_SIMUL", "TORCH_DEVICES", "wlk_backends"]

TORCH_DEVICES = ("auto", "cpu", "cuda", "mps")

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
    standard_options.TICK_SECONDS,
    attrs.evolve(
        standard_options.BUFFER_SECONDS,
        minimum=8.0,
        help="length in seconds from which the buffer is cut after committed words, with "
        "policy=alignatt by whole windows of 8 s; auto takes what the checkpoint declares, else 12",
    ),
    Option(
        name="max_new_tokens",
        type=int,
        default=256,
        minimum=16,
        maximum=4096,
        help="tokens one hypothesis may have beyond committed text, however long its audio",
        scope="stream",
    ),
    standard_options.BORDER_SECONDS,
    standard_options.REWIND_SECONDS,
)

# MLX is made for Apple Silicon; elsewhere torch is faster.
_IS_APPLE_SILICON = platform.system() == "Darwin" and platform.machine() == "arm64"

_CAPABILITIES = frozenset(
    {
        "hypothesis",
        "word-times",
        "probabilities",
        "language-detection",
        "language-forcing",
        "speaker-turns",
        "bounded-state",
    }
)

# The bounds of the digits checkpoint on the speech tier, on either framework.
_BOUNDS = {"wer": 0.10, "word_start_median": 0.12, "word_start_bias": 0.12}

QWEN3_SIMUL = BackendSpec(
    name="qwen3-simul",
    api=1,
    summary="Qwen3-ASR on torch, made simultaneous; CPU, CUDA and Apple's MPS",
    load="wlk_qwen3_simul.torch.backend:load",
    options=(
        standard_options.device(*TORCH_DEVICES),
        standard_options.dtype("float32", "float16", "bfloat16"),
        *_OPTIONS,
    ),
    capabilities=_CAPABILITIES,
    languages=tuple(LANGUAGES),
    policies=("alignatt", "local-agreement"),
    models=MODELS,
    default_model="0.6b",
    model_files=FILES,
    max_delay=3.0,
    bounds=_BOUNDS,
    preference=10,
    requires={
        "torch": "pip install 'wlk-qwen3-simul[torch]'",
        "transformers": "pip install 'wlk-qwen3-simul[torch]'",
    },
)

QWEN3_MLX_SIMUL = BackendSpec(
    name="qwen3-mlx-simul",
    api=1,
    summary="Qwen3-ASR on MLX, made simultaneous; Apple Silicon, Linux on CPU and CUDA",
    load="wlk_qwen3_simul.mlx.backend:load",
    options=(
        standard_options.device("cpu", "gpu"),
        standard_options.dtype("float32", "float16", "bfloat16"),
        *_OPTIONS,
    ),
    capabilities=_CAPABILITIES,
    languages=tuple(LANGUAGES),
    policies=("alignatt", "local-agreement"),
    models=MODELS,
    default_model="0.6b",
    model_files=FILES,
    max_delay=3.0,
    bounds=_BOUNDS,
    max_concurrent_calls=1,  # all threads share one MLX stream
    preference=12 if _IS_APPLE_SILICON else 8,
    # mlx comes first, because on Linux its bare wheel cannot run and the extra brings one that can.
    requires={
        "mlx": "pip install 'wlk-qwen3-simul[mlx]'",
        "mlx-qwen3-asr": "pip install 'wlk-qwen3-simul[mlx]'",
    },
)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Return the backends of this distribution."""
    return (QWEN3_MLX_SIMUL, QWEN3_SIMUL)
