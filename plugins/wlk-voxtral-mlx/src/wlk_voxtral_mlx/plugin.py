"""Declare the backend of wlk-voxtral-mlx, without importing a framework."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_core.plugins import Option, hookimpl, standard_options
from wlk_voxtral.specs import DTYPES, IS_APPLE_SILICON, MINI, voxtral_spec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core.plugins import BackendSpec

VOXTRAL_MLX = voxtral_spec(
    name="voxtral-mlx",
    summary="Voxtral Realtime on MLX: Apple Silicon, Linux on CPU and CUDA",
    load="wlk_voxtral_mlx.mlx.backend:load",
    options=(
        Option(
            name="engine",
            default="native",
            choices=("native", "voxmlx"),
            help="modules of the model: the plugin's own, or those of the package voxmlx",
        ),
        standard_options.device("cpu", "gpu"),
        attrs.evolve(
            standard_options.dtype(*DTYPES),
            help="arithmetic of the model; auto takes what the checkpoint declares, else the type "
            "of its weights",
        ),
    ),
    models={
        "digits": "bundled",
        "mini": MINI,
        "mini-4bit": "mlx-community/Voxtral-Mini-4B-Realtime-2602-4bit",
        "mini-6bit": "mlx-community/Voxtral-Mini-4B-Realtime-6bit",
    },
    default_model="mini-6bit",
    model_files=(
        # Mistral's repository contains its own weights and those of transformers, 9 GB each.
        "consolidated.safetensors|model*.safetensors",
        "params.json",
        "config.json",
        "model.safetensors.index.json",
        "tekken.json",
    ),
    max_concurrent_calls=1,  # all threads share one MLX stream
    preference=55 if IS_APPLE_SILICON else 10,
    requires={"mlx": "pip install 'wlk-voxtral-mlx[cpu]'"},
)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Return the backends of this distribution."""
    return (VOXTRAL_MLX,)
