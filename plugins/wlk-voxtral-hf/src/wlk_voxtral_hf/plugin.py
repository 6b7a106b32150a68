"""The backend of wlk-voxtral-hf: constant data, and importing it brings no framework."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wlk_core import Option, hookimpl
from wlk_voxtral.specs import DTYPE, MINI, voxtral_spec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core import Backend, BackendSpec

__all__ = ["VOXTRAL_HF", "wlk_backends"]


def load_voxtral_hf(model: str | None, **options: Any) -> Backend:
    """Load a Voxtral Realtime model of transformers; see BackendSpec.load."""
    from wlk_voxtral_hf.torch.backend import load  # noqa: PLC0415 -- brings torch

    return load(VOXTRAL_HF, model, **options)


VOXTRAL_HF = voxtral_spec(
    name="voxtral-hf",
    summary="Voxtral Realtime on transformers: CUDA, MPS and CPU",
    load=load_voxtral_hf,
    options=(
        Option(
            name="device",
            default="auto",
            choices=("auto", "cpu", "cuda", "mps"),
            help="device of the model; auto is the best one there is",
        ),
        DTYPE,
        Option(name="cache_dir", default=None, help="folder of pulled models"),
    ),
    models={"digits": "bundled", "mini": MINI},
    default_model="mini",
    model_files=(
        "config.json",
        "generation_config.json",
        "*processor_config.json",
        "model*.safetensors",
        "model.safetensors.index.json",
        "tekken.json",
    ),
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
