"""The backend of wlk-voxtral-mlx: constant data, and importing it brings no framework."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

from wlk_core import Option, hookimpl
from wlk_voxtral.specs import DTYPE, MINI, voxtral_spec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core import Backend, BackendSpec

__all__ = ["VOXTRAL_MLX", "wlk_backends"]

_IS_APPLE_SILICON = (platform.system(), platform.machine()) == ("Darwin", "arm64")


def load_voxtral_mlx(model: str | None, **options: Any) -> Backend:
    """Load a Voxtral Realtime model on MLX; see BackendSpec.load."""
    from wlk_voxtral_mlx.mlx.framework import require_mlx  # noqa: PLC0415 -- brings mlx

    require_mlx()
    from wlk_voxtral_mlx.mlx.backend import load  # noqa: PLC0415 -- as above

    return load(VOXTRAL_MLX, model, **options)


VOXTRAL_MLX = voxtral_spec(
    name="voxtral-mlx",
    summary="Voxtral Realtime on MLX: Apple Silicon, Linux on CPU and CUDA",
    load=load_voxtral_mlx,
    options=(
        Option(
            name="engine",
            default="native",
            choices=("native", "voxmlx"),
            help="modules of the model: the plugin's own, or those of the package voxmlx",
        ),
        Option(
            name="device",
            default="auto",
            choices=("auto", "cpu", "gpu"),
            help="device of the model; auto is the best one there is",
        ),
        DTYPE,
        Option(name="cache_dir", default=None, help="folder of pulled models"),
    ),
    models={
        "digits": "bundled",
        "mini": MINI,
        "mini-4bit": "mlx-community/Voxtral-Mini-4B-Realtime-4bit",
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
    preference=55 if _IS_APPLE_SILICON else 10,
    requires={"mlx": "pip install 'wlk-voxtral-mlx[cpu]'"},
)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Return the backends of this distribution."""
    return (VOXTRAL_MLX,)
