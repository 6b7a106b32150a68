"""What wlk-voxtral-hf offers: declarations only, nothing heavy is imported here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wlk_core import BackendSpec, Option, hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core import Backend

__all__ = ["VOXTRAL_HF", "wlk_backends"]


def load_voxtral_hf(model: str | None, **options: Any) -> Backend:
    """Load a Voxtral Realtime model of transformers; see BackendSpec.load."""
    from wlk_voxtral_hf.backend import VoxtralBackend  # noqa: PLC0415 -- brings torch

    return VoxtralBackend.load(model, **options)


VOXTRAL_HF = BackendSpec(
    name="voxtral-hf",
    api=1,
    summary="Voxtral Realtime on transformers: CUDA, MPS and CPU",
    load=load_voxtral_hf,
    options=(
        Option(
            name="device",
            default="auto",
            choices=("auto", "cpu", "cuda", "mps"),
            help="where the model runs",
        ),
        Option(
            name="dtype",
            default=None,
            choices=("float32", "bfloat16", "float16"),
            help="arithmetic of the model; by default what the checkpoint asks for, else "
            "bfloat16 on an accelerator and float32 on a CPU",
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
    models={"digits": "bundled", "mini": "mistralai/Voxtral-Mini-4B-Realtime-2602"},
    default_model="mini",
    model_files=(
        "config.json",
        "generation_config.json",
        "*processor_config.json",
        "model*.safetensors",
        "model.safetensors.index.json",
        "tekken.json",
    ),
    max_delay=3.0,  # the longest delay, and the pieces of a word
    bounds={"wer": 0.10, "word_start_median": 0.10, "word_start_bias": 0.10},
    preference=20,
    requires={
        "torch": "pip install wlk-voxtral-hf",
        "transformers": "pip install wlk-voxtral-hf",
    },
)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Return the backends of this distribution."""
    return (VOXTRAL_HF,)
