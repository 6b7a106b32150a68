"""The backends of wlk-qwen3-simul: declarations only, which import no framework."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from wlk_core.plugins import BackendSpec, hookimpl, standard_options
from wlk_qwen3_simul.languages import LANGUAGES
from wlk_qwen3_simul.models import FILES, MODELS
from wlk_qwen3_simul.options import OPTIONS, TORCH_DEVICES

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["QWEN3_MLX_SIMUL", "QWEN3_SIMUL", "wlk_backends"]

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
        *OPTIONS,
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
        *OPTIONS,
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
