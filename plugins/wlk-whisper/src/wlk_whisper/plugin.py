"""What wlk-whisper offers: declarations only, nothing heavy is imported here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wlk_core import BackendSpec, Option, hookimpl
from wlk_whisper.languages import LANGUAGES
from wlk_whisper.sizes import FASTER_WHISPER_FILES, FASTER_WHISPER_MODELS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core import Backend

__all__ = ["FASTER_WHISPER", "wlk_backends"]

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
        Option(name="cache_dir", default=None, help="where pulled models lie"),
        Option(
            name="beam_size",
            type=int,
            default=1,
            minimum=1,
            maximum=16,
            help="hypotheses the decoder keeps",
            scope="stream",
        ),
        Option(
            name="init_prompt",
            default=None,
            help="text that precedes the stream: names, spelling, style",
            scope="stream",
        ),
        Option(
            name="tick_seconds",
            type=float,
            default=1.0,
            minimum=0.2,
            maximum=10.0,
            help="seconds of audio between two hypotheses",
            scope="stream",
        ),
        Option(
            name="buffer_seconds",
            type=float,
            default=None,
            minimum=3.0,
            maximum=25.0,
            help="length from which the buffer is cut behind committed words; by default what "
            "the checkpoint asks for, else 12",
            scope="stream",
        ),
        Option(
            name="audio_context",
            default=None,
            choices=("full", "fitted"),
            help="encode 30 s always, or only as much as the buffer needs; by default what the "
            "checkpoint was trained for",
            scope="stream",
        ),
    ),
    capabilities=frozenset(
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
    ),
    languages=LANGUAGES,
    policies=("local-agreement",),
    models=FASTER_WHISPER_MODELS,
    default_model="base",
    model_files=FASTER_WHISPER_FILES,
    max_delay=3.0,
    bounds={"wer": 0.10, "word_start_median": 0.10, "word_start_bias": 0.10},
    preference=50,
    requires={"faster-whisper": "pip install wlk-whisper"},
)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Return the backends of this distribution."""
    return [FASTER_WHISPER]
