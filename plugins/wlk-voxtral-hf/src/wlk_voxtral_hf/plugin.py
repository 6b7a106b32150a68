"""Declare the backend of wlk-voxtral-hf, without importing a framework."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.plugins import hookimpl, standard_options
from wlk_voxtral.specs import DTYPES, MINI, voxtral_spec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core.plugins import BackendSpec

VOXTRAL_HF = voxtral_spec(
    name="voxtral-hf",
    summary="Voxtral Realtime on transformers: CUDA, MPS and CPU",
    load="wlk_voxtral_hf.torch.backend:load",
    options=(
        standard_options.device("cpu", "cuda", "cuda:N", "mps"),
        standard_options.dtype(*DTYPES),
    ),
    models={"digits": "bundled", "mini": MINI},
    model_sizes={"mini": 8_900_000_000},
    default_model="mini",
    is_batching=True,
    max_concurrent_calls=32,  # a pass over 32 streams costs little more than a pass over one
    model_files=(
        "config.json",
        "generation_config.json",
        "*processor_config.json",
        "model*.safetensors",
        "model.safetensors.index.json",
        "tekken.json",
    ),
    preference=20,
    requires=dict.fromkeys(("torch", "transformers"), "pip install wlk-voxtral-hf"),
)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Return the backends of this distribution."""
    return (VOXTRAL_HF,)
