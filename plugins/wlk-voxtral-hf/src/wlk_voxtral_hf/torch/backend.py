"""Find a checkpoint and load it on torch as the voxtral-hf backend."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from wlk_frameworks.transformers import find_and_load
from wlk_voxtral.backend import loaded_backend
from wlk_voxtral.engine import VoxtralEngine
from wlk_voxtral_hf.checkpoint import read_checkpoint
from wlk_voxtral_hf.torch.network import TorchNetwork
from wlk_voxtral_hf.torch.weights import load_model

if TYPE_CHECKING:
    from wlk_core.plugins import Backend, BackendSpec

BUNDLED = {"digits": Path(__file__).parents[1] / "digits"}


def load(spec: BackendSpec, model: str, **options: Any) -> Backend:
    """Load *model*; raises as `find_and_load`, whose *options* are those of the spec."""
    checkpoint, loaded = find_and_load(
        spec,
        model,
        bundled=BUNDLED,
        read=read_checkpoint,
        load_model=load_model,
        needs=(),  # the reader names what it found instead
        **options,
    )
    network = TorchNetwork(loaded, eos_id=checkpoint.tokenizer.eos_id)
    return loaded_backend(spec, VoxtralEngine(network, checkpoint))
