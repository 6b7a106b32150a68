"""Declare the backends of wlk-whisper, without importing a framework."""

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
    model_licences,
    model_sizes,
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

#: Error bounds of the digits checkpoint in the speech tier, on any engine.
BOUNDS = {"wer": 0.10, "word_start_median": 0.10, "word_start_bias": 0.10}

# https://opennmt.net/CTranslate2/quantization.html; "fastest" is what CTranslate2 calls "auto", and
# "default" is the type that the weights were saved in.
COMPUTE_TYPES = (
    "default", "fastest", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16",
    "float16", "bfloat16", "float32",
)  # fmt: skip

AUDIO_CONTEXT = Option(
    name="audio_context",
    choices=("padded", "full", "fitted"),
    is_auto_allowed=True,
    help="what is encoded: a window of 30 s (full), the buffer alone, for models trained on short "
    "windows (fitted), or the buffer, with the encoder output of silence appended (padded); auto "
    "takes fitted if the checkpoint allows it, else padded",
    scope="stream",
)

LORA_PATH = Option(
    name="lora_path",
    help="directory of a LoRA adapter (peft) that is merged into the model",
)

DECODING_OPTIONS = (
    standard_options.LANGUAGES,
    standard_options.BEAM_SIZE,
    standard_options.PROMPT,
    standard_options.KEYTERMS,
    AUDIO_CONTEXT,
)


def _live_options(*policies: str) -> Iterable[Option]:
    """Return the tick and buffer options of live *policies*; long-form has neither."""
    tick = attrs.evolve(standard_options.TICK_SECONDS, default=0.5, policies=policies)
    buffer = attrs.evolve(
        standard_options.BUFFER_SECONDS,
        help="length in seconds above which the buffer is cut after committed words, keeping at "
        "least half of it; auto takes what the checkpoint declares, else 6.6",
        policies=policies,
    )
    return (tick, buffer)


#: Options of the engines over a Network, torch and MLX, which support both live policies.
NETWORK_OPTIONS = (
    standard_options.CACHE_DIR,
    *DECODING_OPTIONS,
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
        standard_options.device("cpu", "cuda", "cuda:N"),
        attrs.evolve(
            standard_options.dtype(*COMPUTE_TYPES),
            help="arithmetic of the model; auto takes what the checkpoint declares, else int8 on "
            "x86, else default: the type of the weights, or float32 if the device lacks float16",
        ),
        Option(
            name="cpu_threads",
            type=int,
            minimum=0,
            maximum=256,
            is_auto_allowed=True,
            help="CPU threads of one engine call; 0 lets CTranslate2 choose; auto takes what the "
            "checkpoint declares, else 0",
        ),
        standard_options.CACHE_DIR,
        *DECODING_OPTIONS,
        *_live_options("local-agreement"),
    ),
    capabilities=CAPABILITIES,
    languages=LANGUAGES,
    policies=("local-agreement", "long-form"),
    models=FASTER_WHISPER_MODELS,
    model_sizes=model_sizes(FASTER_WHISPER_MODELS),
    model_licences=model_licences(FASTER_WHISPER_MODELS),
    default_model="base",
    model_files=FASTER_WHISPER_FILES,
    max_delay=3.0,
    bounds=BOUNDS,
    max_concurrent_calls=None,  # one per core; CTranslate2 queues calls while its workers are busy
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
        *NETWORK_OPTIONS,
    ),
    capabilities=CAPABILITIES,
    languages=LANGUAGES,
    policies=("alignatt", "local-agreement", "long-form"),
    models=MLX_MODELS,
    model_sizes=model_sizes(MLX_MODELS),
    default_model="base",
    model_files=MLX_FILES,
    max_delay=3.0,
    bounds=BOUNDS,
    max_concurrent_calls=1,  # all threads share one MLX stream
    preference=60 if IS_APPLE_SILICON else 20,
    # mlx through the extra, too: on Linux its bare wheel has no backend, and the extra adds one.
    requires={
        "mlx": "pip install 'wlk-whisper[mlx]'",
        "mlx-whisper": "pip install 'wlk-whisper[mlx]'",
    },
)

OPENAI_API = BackendSpec(
    name="openai-api",
    api=1,
    summary="Whisper at an OpenAI-compatible server; sends the audio there",
    load="wlk_whisper.openai_api.backend:load",
    options=(
        Option(
            name="base_url",
            help="URL of the server without /audio/transcriptions; by default "
            "OPENAI_BASE_URL, else https://api.openai.com/v1",
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
            help="seconds after which a request fails if the server has not answered",
        ),
        Option(
            name="max_retries",
            type=int,
            default=3,
            minimum=0,
            maximum=10,
            help="times a request is repeated while the server is busy, failing or unreachable, "
            "after the delay that it asks for or growing ones",
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
            help="length in seconds above which the audio of a request is cut after committed "
            "words; auto takes 8",
        ),
    ),
    # verbose_json has probabilities only for whole segments, so words have none.
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
        standard_options.device("cpu", "cuda", "cuda:N", "mps"),
        standard_options.dtype("float32", "float16", "bfloat16"),
        standard_options.ALIGNMENT_HEADS,
        LORA_PATH,
        *NETWORK_OPTIONS,
    ),
    capabilities=CAPABILITIES,
    languages=LANGUAGES,
    policies=("alignatt", "local-agreement", "long-form"),
    models=TRANSFORMERS_MODELS,
    model_sizes=model_sizes(TRANSFORMERS_MODELS),
    model_licences=model_licences(TRANSFORMERS_MODELS),
    default_model="base",
    model_files=TRANSFORMERS_FILES,
    max_delay=3.0,
    bounds=BOUNDS,
    max_concurrent_calls=1,  # a call takes all cores, or the GPU
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
