"""What the faster-whisper backend offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wlk_core import BackendSpec, Option
from wlk_whisper.languages import LANGUAGES
from wlk_whisper.sizes import FASTER_WHISPER_FILES, FASTER_WHISPER_MODELS
from wlk_whisper.specs import common

if TYPE_CHECKING:
    from wlk_core import Backend

__all__ = ["FASTER_WHISPER"]

# https://opennmt.net/CTranslate2/quantization.html
COMPUTE_TYPES = (
    "default", "auto", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16",
    "bfloat16", "float32",
)  # fmt: skip


def load_faster_whisper(model: str | None, **options: Any) -> Backend:
    """Load a CTranslate2 Whisper model; see BackendSpec.load."""
    from wlk_whisper.faster_backend import FasterWhisperBackend  # noqa: PLC0415 -- brings ctranslate2

    return FasterWhisperBackend.load(model, **options)


FASTER_WHISPER = BackendSpec(
    name="faster-whisper",
    api=1,
    summary="Whisper on CTranslate2, CPU and CUDA",
    load=load_faster_whisper,
    options=(
        Option(
            name="device",
            default="auto",
            choices=("auto", "cpu", "cuda"),
            help="where the model runs",
        ),
        Option(
            name="compute_type",
            default=None,
            choices=COMPUTE_TYPES,
            help="arithmetic of the model; by default what the checkpoint asks for",
        ),
        Option(
            name="cpu_threads",
            type=int,
            default=0,
            minimum=0,
            maximum=256,
            help="threads of one engine call on the CPU; 0 leaves it to CTranslate2",
        ),
        common.CACHE_DIR,
        common.BEAM_SIZE,
        common.INIT_PROMPT,
        common.TICK_SECONDS,
        common.BUFFER_SECONDS,
        common.AUDIO_CONTEXT,
    ),
    capabilities=common.CAPABILITIES,
    languages=LANGUAGES,
    policies=("local-agreement",),
    models=FASTER_WHISPER_MODELS,
    default_model="base",
    model_files=FASTER_WHISPER_FILES,
    max_delay=3.0,
    bounds=common.BOUNDS,
    preference=50,
    requires={"faster-whisper": "pip install wlk-whisper"},
)
