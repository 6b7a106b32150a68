"""What wlk-voxtral-mlx offers: declarations only, nothing heavy is imported here."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

from wlk_core import BackendSpec, Option, hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core import Backend

__all__ = ["VOXTRAL_MLX", "wlk_backends"]

_IS_APPLE_SILICON = (platform.system(), platform.machine()) == ("Darwin", "arm64")


def load_voxtral_mlx(model: str | None, **options: Any) -> Backend:
    """Load a Voxtral Realtime model on MLX; see BackendSpec.load."""
    from wlk_voxtral_mlx.framework import require_mlx  # noqa: PLC0415 -- brings mlx

    require_mlx()
    from wlk_voxtral_mlx.backend import VoxtralBackend  # noqa: PLC0415 -- as above

    return VoxtralBackend.load(model, **options)


VOXTRAL_MLX = BackendSpec(
    name="voxtral-mlx",
    api=1,
    summary="Voxtral Realtime on MLX: Apple Silicon, Linux on CPU and CUDA",
    load=load_voxtral_mlx,
    options=(
        Option(
            name="engine",
            default="native",
            choices=("native", "voxmlx"),
            help="whose model is loaded: the plugin's own, or that of the package voxmlx",
        ),
        Option(
            name="device",
            default="auto",
            choices=("auto", "cpu", "gpu"),
            help="where the model runs",
        ),
        Option(
            name="dtype",
            default=None,
            choices=("float32", "bfloat16", "float16"),
            help="arithmetic of the model; by default what the checkpoint asks for, else what it "
            "is stored in",
        ),
        Option(name="cache_dir", default=None, help="where pulled models lie"),
        Option(
            name="delay_ms",
            type=int,
            default=None,
            minimum=80,
            maximum=2400,
            help="how far the text lags behind the audio, a multiple of 80; by default what the "
            "checkpoint asks for, 480 in the published one",
            scope="stream",
        ),
        Option(
            name="draft_steps",
            type=int,
            default=8,
            minimum=1,
            maximum=16,
            help="steps of a backlog decoded in one pass as if nothing were said; 1 decodes each "
            "alone",
            scope="stream",
        ),
    ),
    capabilities=("hypothesis", "word-times", "probabilities", "speaker-turns", "bounded-state"),
    models={
        "digits": "bundled",
        "mini": "mistralai/Voxtral-Mini-4B-Realtime-2602",
        "mini-4bit": "mlx-community/Voxtral-Mini-4B-Realtime-4bit",
        "mini-6bit": "mlx-community/Voxtral-Mini-4B-Realtime-6bit",
    },
    default_model="mini-6bit",
    model_files=(
        # Mistral's repository holds its own weights and those of transformers: 9 GB each.
        "consolidated.safetensors|model*.safetensors",
        "params.json",
        "config.json",
        "model.safetensors.index.json",
        "tekken.json",
    ),
    max_delay=3.0,  # the longest delay, and the pieces of a word
    bounds={"wer": 0.10, "word_start_median": 0.10, "word_start_bias": 0.10},
    preference=55 if _IS_APPLE_SILICON else 10,
    requires={"mlx": "pip install 'wlk-voxtral-mlx[cpu]'"},
)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Return the backends of this distribution."""
    return (VOXTRAL_MLX,)
