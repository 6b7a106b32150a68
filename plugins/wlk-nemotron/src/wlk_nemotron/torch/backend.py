"""Find a checkpoint and load it on torch as the nemotron backend."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from wlk_frameworks.transformers import find_and_load
from wlk_nemotron.backend import loaded_backend
from wlk_nemotron.checkpoint import CheckpointConfig
from wlk_nemotron.torch.network import NemotronEngine
from wlk_nemotron.torch.weights import load_model

if TYPE_CHECKING:
    from wlk_core.plugins import Backend, BackendSpec

BUNDLED = {"digits": Path(__file__).parents[1] / "digits"}


def load(spec: BackendSpec, model: str, **options: Any) -> Backend:
    """Load *model*; raises as `find_and_load`, whose *options* are those of the spec."""
    checkpoint, (network, extractor) = find_and_load(
        spec,
        model,
        bundled=BUNDLED,
        read=CheckpointConfig.read,
        load_model=load_model,
        needs=(),  # the reader names what it found instead
        **options,
    )
    return loaded_backend(spec, NemotronEngine(network, extractor, checkpoint))
