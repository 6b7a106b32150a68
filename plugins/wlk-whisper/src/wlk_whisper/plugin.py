"""The backends of this distribution; importing this module brings no framework."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

from wlk_core import BackendSpec, Option, hookimpl
from wlk_whisper import options
from wlk_whisper.languages import LANGUAGES
from wlk_whisper.models import (
    FASTER_WHISPER_FILES,
    FASTER_WHISPER_MODELS,
    HOSTED_MODELS,
    MLX_FILES,
    MLX_MODELS,
    TRANSFORMERS_FILES,
    TRANSFORMERS_MODELS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core import Backend

__all__ = ["FASTER_WHISPER", "MLX_WHISPER", "OPENAI_API", "WHISPER", "wlk_backends"]

CAPABILITIES = frozenset(
    {
        "hypothesis",
        "word-times",
        "probabilities",
        "language-detection",
        "language-forcing",
        "translation",
        "speaker-turns",
        "bounded-state",
    }
)

#: Bounds of the digits checkpoint on the speech tier, on any engine.
BOUNDS = {"wer": 0.10, "word_start_median": 0.10, "word_start_bias": 0.10}

# https://opennmt.net/CTranslate2/quantization.html
COMPUTE_TYPES = (
    "default", "auto", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16",
    "bfloat16", "float32",
)  # fmt: skip

# MLX is made for Apple Silicon; on other machines the other engines are faster.
IS_APPLE_SILICON = platform.system() == "Darwin" and platform.machine() == "arm64"


def load_faster_whisper(model: str | None, **values: Any) -> Backend:
    """Load a CTranslate2 Whisper model; see BackendSpec.load."""
    from wlk_whisper.ctranslate2.backend import load  # noqa: PLC0415 -- imports ctranslate2

    return load(FASTER_WHISPER, model, **values)


def load_mlx_whisper(model: str | None, **values: Any) -> Backend:
    """Load a Whisper in mlx-whisper's format; see BackendSpec.load."""
    from wlk_whisper.mlx.backend import load  # noqa: PLC0415 -- imports mlx

    return load(MLX_WHISPER, model, **values)


def load_openai_api(model: str | None, **values: Any) -> Backend:
    """Prepare a client of a transcription endpoint; see BackendSpec.load."""
    from wlk_whisper.openai_api.backend import load  # noqa: PLC0415 -- imports openai

    return load(OPENAI_API, model, **values)


def load_whisper(model: str | None, **values: Any) -> Backend:
    """Load a Whisper in transformers' format; see BackendSpec.load."""
    from wlk_whisper.torch.backend import load  # noqa: PLC0415 -- imports torch

    return load(WHISPER, model, **values)


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
            help="device that runs the model",
        ),
        Option(
            name="compute_type",
            default=None,
            choices=COMPUTE_TYPES,
            help="arithmetic of the model; by default the checkpoint's",
        ),
        Option(
            name="cpu_threads",
            type=int,
            default=0,
            minimum=0,
            maximum=256,
            help="threads of one engine call on the CPU; 0 lets CTranslate2 choose",
        ),
        options.CACHE_DIR,
        options.BEAM_SIZE,
        options.INIT_PROMPT,
        options.TICK_SECONDS,
        options.BUFFER_SECONDS,
        options.AUDIO_CONTEXT,
    ),
    capabilities=CAPABILITIES,
    languages=LANGUAGES,
    policies=("local-agreement",),
    models=FASTER_WHISPER_MODELS,
    default_model="base",
    model_files=FASTER_WHISPER_FILES,
    max_delay=3.0,
    bounds=BOUNDS,
    preference=50,
    requires={"faster-whisper": "pip install wlk-whisper"},
)

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
            help="device that runs the model",
        ),
        Option(
            name="dtype",
            default="auto",
            choices=("auto", "float32", "float16"),
            help="arithmetic of the model; by default the checkpoint's, else float32 on the CPU "
            "and float16 on a GPU",
        ),
        options.ALIGNMENT_HEADS,
        options.CACHE_DIR,
        options.BEAM_SIZE,
        options.INIT_PROMPT,
        options.TICK_SECONDS,
        options.BUFFER_SECONDS,
        options.AUDIO_CONTEXT,
        *options.ALIGNATT_OPTIONS,
    ),
    capabilities=CAPABILITIES,
    languages=LANGUAGES,
    policies=("alignatt", "local-agreement"),
    models=MLX_MODELS,
    default_model="base",
    model_files=MLX_FILES,
    max_delay=3.0,
    bounds=BOUNDS,
    preference=60 if IS_APPLE_SILICON else 20,
    # mlx first, because its wheel for Linux has no back end of its own and the extra installs one.
    requires={
        "mlx": "pip install 'wlk-whisper[mlx]'",
        "mlx-whisper": "pip install 'wlk-whisper[mlx]'",
    },
)

OPENAI_API = BackendSpec(
    name="openai-api",
    api=1,
    summary="Whisper at an OpenAI-compatible endpoint; sends the audio there",
    load=load_openai_api,
    options=(
        Option(
            name="base_url",
            default=None,
            help="URL of the endpoint without /audio/transcriptions; by default "
            "$OPENAI_BASE_URL, else https://api.openai.com/v1",
        ),
        Option(
            name="api_key_env",
            default="OPENAI_API_KEY",
            help="name of the environment variable that holds the key for base_url",
        ),
        Option(
            name="timeout_seconds",
            type=float,
            default=30.0,
            minimum=0.1,
            maximum=600.0,
            help="seconds after which an attempt without an answer fails",
        ),
        Option(
            name="max_retries",
            type=int,
            default=2,
            minimum=0,
            maximum=10,
            help="times a request is repeated, with growing delays, when the endpoint is busy, "
            "broken or out of reach",
        ),
        options.INIT_PROMPT,
        Option(
            name="tick_seconds",
            type=float,
            default=2.0,
            minimum=0.5,
            maximum=10.0,
            help="seconds of audio between two requests",
            scope="stream",
        ),
        Option(
            name="buffer_seconds",
            type=float,
            default=8.0,
            minimum=3.0,
            maximum=25.0,
            help="length from which the audio of a request is cut after committed words",
            scope="stream",
        ),
    ),
    # verbose_json has probabilities of whole segments only, so words have none.
    capabilities=CAPABILITIES - {"probabilities"},
    languages=LANGUAGES,
    policies=("local-agreement",),
    models=HOSTED_MODELS,
    default_model="whisper-1",
    max_delay=3.0,
    bounds=BOUNDS,
    preference=None,  # never a default, because it sends audio away and costs money
    requires={"openai": "pip install 'wlk-whisper[openai]'"},
)

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
            help="device that runs the model",
        ),
        Option(
            name="dtype",
            default="auto",
            choices=("auto", "float32", "float16", "bfloat16"),
            help="arithmetic of the model; by default the checkpoint's, else float32 on the CPU "
            "and float16 elsewhere",
        ),
        options.ALIGNMENT_HEADS,
        Option(
            name="lora_path",
            default=None,
            help="directory of a LoRA adapter (peft) that is merged into the model",
        ),
        options.CACHE_DIR,
        options.BEAM_SIZE,
        options.INIT_PROMPT,
        options.TICK_SECONDS,
        options.BUFFER_SECONDS,
        options.AUDIO_CONTEXT,
        *options.ALIGNATT_OPTIONS,
    ),
    capabilities=CAPABILITIES,
    languages=LANGUAGES,
    policies=("alignatt", "local-agreement"),
    models=TRANSFORMERS_MODELS,
    default_model="base",
    model_files=TRANSFORMERS_FILES,
    max_delay=3.0,
    bounds=BOUNDS,
    preference=30,
    requires={
        "torch": "pip install 'wlk-whisper[torch]'",
        "transformers": "pip install 'wlk-whisper[torch]'",
    },
)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Return the backends of this distribution."""
    return (FASTER_WHISPER, MLX_WHISPER, OPENAI_API, WHISPER)
