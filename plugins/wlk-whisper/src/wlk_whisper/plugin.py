"""The backends of this distribution; importing this module brings no framework."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import attrs

from wlk_core.plugins import BackendSpec, Option, hookimpl, standard_options
from wlk_whisper.models import (
    FASTER_WHISPER_FILES,
    FASTER_WHISPER_MODELS,
    HOSTED_MODELS,
    LANGUAGES,
    MLX_FILES,
    MLX_MODELS,
    TRANSFORMERS_FILES,
    TRANSFORMERS_MODELS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

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

# https://opennmt.net/CTranslate2/quantization.html; "fastest" is what CTranslate2 calls auto, and
# "default" the type that the weights were saved in.
COMPUTE_TYPES = (
    "default", "fastest", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16",
    "float16", "bfloat16", "float32",
)  # fmt: skip

AUDIO_CONTEXT = Option(
    name="audio_context",
    choices=("padded", "full", "fitted"),
    is_auto_allowed=True,
    help="encode windows of 30 s (full), the buffer alone, for models trained on such windows "
    "(fitted), or the buffer with the encoder output of silence after it (padded); auto takes "
    "fitted where the checkpoint allows it, else padded",
    scope="stream",
)

LORA_PATH = Option(
    name="lora_path",
    help="directory of a LoRA adapter (peft) that is merged into the model",
)

DECODING = (
    standard_options.BEAM_SIZE,
    standard_options.PROMPT,
    standard_options.KEYTERMS,
    AUDIO_CONTEXT,
)


def _live_options(*policies: str) -> Iterable[Option]:
    """Return the options of the *policies* for live audio, which long-form does not take."""
    tick = attrs.evolve(standard_options.TICK_SECONDS, default=0.5, policies=policies)
    buffer = attrs.evolve(
        standard_options.BUFFER_SECONDS,
        help="length in seconds from which the buffer is cut after committed words, to half of it "
        "at least; auto takes what the checkpoint declares, else 6.6",
        policies=policies,
    )
    return (tick, buffer)


#: Options of the engines that decode with either policy.
LAYERS = (
    standard_options.CACHE_DIR,
    *DECODING,
    *_live_options("alignatt", "local-agreement"),
    attrs.evolve(standard_options.BORDER_SECONDS, default=0.3),
)

# MLX is made for Apple Silicon; on other machines the other engines are faster.
IS_APPLE_SILICON = platform.system() == "Darwin" and platform.machine() == "arm64"

FASTER_WHISPER = BackendSpec(
    name="faster-whisper",
    api=1,
    summary="Whisper on CTranslate2, CPU and CUDA",
    load="wlk_whisper.ctranslate2.backend:load",
    options=(
        standard_options.device("cpu", "cuda"),
        attrs.evolve(
            standard_options.dtype(*COMPUTE_TYPES),
            help="arithmetic of the model; auto takes what the checkpoint declares, else int8 on "
            "x86, else default: the type of its weights, or float32 without float16",
        ),
        Option(
            name="cpu_threads",
            type=int,
            minimum=0,
            maximum=256,
            is_auto_allowed=True,
            help="threads of one engine call on the CPU; 0 lets CTranslate2 choose, auto takes "
            "what the checkpoint declares, else 0",
        ),
        standard_options.CACHE_DIR,
        *DECODING,
        *_live_options("local-agreement"),
    ),
    capabilities=CAPABILITIES,
    languages=LANGUAGES,
    policies=("local-agreement", "long-form"),
    models=FASTER_WHISPER_MODELS,
    default_model="base",
    model_files=FASTER_WHISPER_FILES,
    max_delay=3.0,
    bounds=BOUNDS,
    max_concurrent_calls=None,  # CTranslate2 has a worker for each core that a call leaves free
    preference=50,
    requires={"faster-whisper": "pip install wlk-whisper"},
)

MLX_WHISPER = BackendSpec(
    name="mlx-whisper",
    api=1,
    summary="Whisper on MLX; Apple Silicon, Linux on CPU and CUDA",
    load="wlk_whisper.mlx.backend:load",
    options=(
        standard_options.device("cpu", "gpu"),
        standard_options.dtype("float32", "float16"),
        standard_options.ALIGNMENT_HEADS,
        *LAYERS,
    ),
    capabilities=CAPABILITIES,
    languages=LANGUAGES,
    policies=("alignatt", "local-agreement", "long-form"),
    models=MLX_MODELS,
    default_model="base",
    model_files=MLX_FILES,
    max_delay=3.0,
    bounds=BOUNDS,
    max_concurrent_calls=1,  # all threads share one MLX stream
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
    load="wlk_whisper.openai_api.backend:load",
    options=(
        Option(
            name="base_url",
            help="URL of the endpoint without /audio/transcriptions; none takes "
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
            help="seconds after which a request that the endpoint does not answer has failed",
        ),
        Option(
            name="max_retries",
            type=int,
            default=3,
            minimum=0,
            maximum=10,
            help="times a request is repeated, after the pause that the endpoint requests or a "
            "growing one, when it is busy, broken or out of reach",
        ),
        standard_options.PROMPT,
        standard_options.KEYTERMS,
        attrs.evolve(
            standard_options.TICK_SECONDS,
            default=2.0,
            minimum=0.5,
            policies=("local-agreement",),
            help="seconds of audio between two requests",
        ),
        attrs.evolve(
            standard_options.BUFFER_SECONDS,
            policies=("local-agreement",),
            help="length in seconds from which the audio of a request is cut after committed "
            "words; auto takes 8",
        ),
    ),
    # verbose_json has probabilities of whole segments only, so words have none.
    capabilities=CAPABILITIES - {"probabilities"},
    languages=LANGUAGES,
    policies=("local-agreement", "long-form"),
    models=HOSTED_MODELS,
    default_model="whisper-1",
    max_delay=3.0,
    bounds=BOUNDS,
    max_concurrent_calls=16,  # a call waits for the network, not for this machine
    preference=None,  # never a default, because it sends audio away and costs money
    requires={"openai": "pip install 'wlk-whisper[openai]'"},
)

WHISPER = BackendSpec(
    name="whisper",
    api=1,
    summary="Whisper on torch; CPU, CUDA and Apple's MPS, LoRA adapters",
    load="wlk_whisper.torch.backend:load",
    options=(
        standard_options.device("cpu", "cuda", "mps"),
        standard_options.dtype("float32", "float16", "bfloat16"),
        standard_options.ALIGNMENT_HEADS,
        LORA_PATH,
        *LAYERS,
    ),
    capabilities=CAPABILITIES | {"batching"},
    languages=LANGUAGES,
    policies=("alignatt", "local-agreement", "long-form"),
    models=TRANSFORMERS_MODELS,
    default_model="base",
    model_files=TRANSFORMERS_FILES,
    max_delay=3.0,
    bounds=BOUNDS,
    max_concurrent_calls=16,  # a pass over the next tokens of 16 streams costs little more than one
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
