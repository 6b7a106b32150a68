"""What the whisper backend offers: Whisper on torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wlk_core import BackendSpec, Option
from wlk_whisper.languages import LANGUAGES
from wlk_whisper.sizes import TRANSFORMERS_FILES, TRANSFORMERS_MODELS
from wlk_whisper.specs import common

if TYPE_CHECKING:
    from wlk_core import Backend

__all__ = ["WHISPER"]


def load_whisper(model: str | None, **options: Any) -> Backend:
    """Load a Whisper in transformers' format; see BackendSpec.load."""
    from wlk_whisper.torch_backend import load  # noqa: PLC0415 -- brings torch

    return load(model, **options)


WHISPER = BackendSpec(
    name="whisper",
    api=1,
    summary="Whisper on torch; CPU, CUDA and Apple's MPS, LoRA adapters",
    load=load_whisper,
    options=(
        Option(
            name="device",
            default="auto",
            choices=("auto", "cpu", "cuda", "mps"),
            help="where the model runs",
        ),
        Option(
            name="dtype",
            default="auto",
            choices=("auto", "float32", "float16", "bfloat16"),
            help="arithmetic of the model; by default what the checkpoint asks for, else float32 "
            "on the CPU and float16 elsewhere",
        ),
        common.ALIGNMENT_HEADS,
        Option(
            name="lora_path",
            default=None,
            help="directory of a LoRA adapter (peft) that is merged into the model",
        ),
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
    models=TRANSFORMERS_MODELS,
    default_model="base",
    model_files=TRANSFORMERS_FILES,
    max_delay=3.0,
    bounds=common.BOUNDS,
    preference=30,
    requires={
        "torch": "pip install 'wlk-whisper[torch]'",
        "transformers": "pip install 'wlk-whisper[torch]'",
    },
)
