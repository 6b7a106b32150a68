"""What the two backends offer: one list of options, two engines."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

from wlk_core import BackendSpec, Option
from wlk_qwen3_simul.languages import LANGUAGES
from wlk_qwen3_simul.sizes import FILES, MODELS

if TYPE_CHECKING:
    from wlk_core import Backend

__all__ = ["ALIGNATT", "QWEN3_MLX_SIMUL", "QWEN3_SIMUL", "TORCH_DEVICES"]

TORCH_DEVICES = ("auto", "cpu", "cuda", "mps")

# Apple Silicon is what MLX is made for; elsewhere torch is quicker.
IS_APPLE_SILICON = platform.system() == "Darwin" and platform.machine() == "arm64"


def load_torch(model: str | None, **options: Any) -> Backend:
    """Load a Qwen3-ASR on torch; see BackendSpec.load."""
    from wlk_qwen3_simul.torch_backend import load  # noqa: PLC0415 -- brings torch

    return load(model, **options)


def load_mlx(model: str | None, **options: Any) -> Backend:
    """Load a Qwen3-ASR on MLX; see BackendSpec.load."""
    from wlk_qwen3_simul.mlx_backend import load  # noqa: PLC0415 -- brings mlx

    return load(model, **options)


def _device(*choices: str) -> Option:
    return Option(name="device", default="auto", choices=choices, help="where the model runs")


def _dtype(*choices: str) -> Option:
    return Option(
        name="dtype",
        default="auto",
        choices=choices,
        help="arithmetic of the model; by default what the checkpoint asks for, else float32 on "
        f"the CPU and {choices[-1]} elsewhere",
    )


#: What policy=alignatt is told, and no other policy takes.
ALIGNATT = (
    Option(
        name="border_seconds",
        type=float,
        default=0.5,
        minimum=0.0,
        maximum=5.0,
        help="seconds at the end of the audio that no final word attends to (policy=alignatt)",
        scope="stream",
    ),
    Option(
        name="rewind_seconds",
        type=float,
        default=4.0,
        minimum=0.04,
        maximum=30.0,
        help="seconds that attention may jump back before the text is taken to have gone astray "
        "(policy=alignatt)",
        scope="stream",
    ),
)

_SHARED = (
    Option(
        name="alignment_heads",
        default=None,
        help="heads of the decoder that look at the word being said: "
        "predict:layer.head,layer.head, or self:..., or a file that wlk_qwen3_simul.detect_heads "
        "wrote; by default those known of the model",
    ),
    Option(name="cache_dir", default=None, help="where pulled models lie"),
    Option(
        name="init_prompt",
        default=None,
        help="text of the system turn before the audio: hotwords, names, spelling",
        scope="stream",
    ),
    Option(
        name="tick_seconds",
        type=float,
        default=1.0,
        minimum=0.2,
        maximum=10.0,
        help="seconds of audio between two hypotheses",
        scope="stream",
    ),
    Option(
        name="buffer_seconds",
        type=float,
        default=None,
        minimum=8.0,
        maximum=25.0,
        help="length from which the buffer is cut behind committed words, with policy=alignatt by "
        "whole windows of 8 s; by default what the checkpoint asks for, else 12",
        scope="stream",
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
    *ALIGNATT,
)

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

# What the digits checkpoint promises on the speech tier, on either engine.
_BOUNDS = {"wer": 0.10, "word_start_median": 0.12, "word_start_bias": 0.12}

QWEN3_SIMUL = BackendSpec(
    name="qwen3-simul",
    api=1,
    summary="Qwen3-ASR on torch, made simultaneous; CPU, CUDA and Apple's MPS",
    load=load_torch,
    options=(
        _device(*TORCH_DEVICES),
        _dtype("auto", "float32", "float16", "bfloat16"),
        *_SHARED,
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
    load=load_mlx,
    options=(
        _device("auto", "cpu", "gpu"),
        _dtype("auto", "float32", "bfloat16", "float16"),
        *_SHARED,
    ),
    capabilities=_CAPABILITIES,
    languages=tuple(LANGUAGES),
    policies=("alignatt", "local-agreement"),
    models=MODELS,
    default_model="0.6b",
    model_files=FILES,
    max_delay=3.0,
    bounds=_BOUNDS,
    preference=12 if IS_APPLE_SILICON else 8,
    # mlx first: on Linux its wheel has no back end of its own, and the extra brings one.
    requires={
        "mlx": "pip install 'wlk-qwen3-simul[mlx]'",
        "mlx-qwen3-asr": "pip install 'wlk-qwen3-simul[mlx]'",
    },
)
