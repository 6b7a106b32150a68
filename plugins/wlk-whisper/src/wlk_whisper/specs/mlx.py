"""What the mlx-whisper backend offers: Whisper on MLX."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

from wlk_core import BackendSpec, Option
from wlk_whisper.languages import LANGUAGES
from wlk_whisper.sizes import MLX_FILES, MLX_MODELS
from wlk_whisper.specs import common

if TYPE_CHECKING:
    from wlk_core import Backend

__all__ = ["MLX_WHISPER"]

# Apple Silicon is what MLX is made for; elsewhere the others are quicker.
IS_APPLE_SILICON = platform.system() == "Darwin" and platform.machine() == "arm64"


def load_mlx_whisper(model: str | None, **options: Any) -> Backend:
    """Load a Whisper in mlx-whisper's format; see BackendSpec.load."""
    from wlk_whisper.mlx_backend import load  # noqa: PLC0415 -- brings mlx

    return load(model, **options)


MLX_WHISPER = BackendSpec(
    name="mlx-whisper",
    api=1,
    summary="Whisper on MLX; Apple Silicon, Linux on CPU and CUDA",
    load=load_mlx_whisper,
    options=(
        Option(
            name="device",
            default="auto",
            choices=("auto", "cpu", "gpu"),
            help="where the model runs",
        ),
        Option(
            name="dtype",
            default="auto",
            choices=("auto", "float32", "float16"),
            help="arithmetic of the model; by default what the checkpoint asks for, else float32 "
            "on the CPU and float16 on a GPU",
        ),
        common.ALIGNMENT_HEADS,
        common.CACHE_DIR,
        common.BEAM_SIZE,
        common.INIT_PROMPT,
        common.TICK_SECONDS,
        common.BUFFER_SECONDS,
        common.AUDIO_CONTEXT,
        *common.ALIGNATT,
    ),
    capabilities=common.CAPABILITIES,
    languages=LANGUAGES,
    policies=("alignatt", "local-agreement"),
    models=MLX_MODELS,
    default_model="base",
    model_files=MLX_FILES,
    max_delay=3.0,
    bounds=common.BOUNDS,
    preference=60 if IS_APPLE_SILICON else 20,
    # mlx first: on Linux its wheel has no back end of its own, and the extra brings one.
    requires={
        "mlx": "pip install 'wlk-whisper[mlx]'",
        "mlx-whisper": "pip install 'wlk-whisper[mlx]'",
    },
)
