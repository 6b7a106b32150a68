"""Load a checkpoint on torch as the qwen3-simul backend."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from wlk_frameworks.transformers import find_and_load
from wlk_qwen3_simul.backend import loaded_backend
from wlk_qwen3_simul.checkpoint import BUNDLED, Checkpoint
from wlk_qwen3_simul.torch.checkpoint import load_model
from wlk_qwen3_simul.torch.network import TorchNetwork

if TYPE_CHECKING:
    from wlk_core.plugins import BackendSpec, LoadedBackend
    from wlk_qwen3_simul.engine.engine import Engine


def load(
    spec: BackendSpec, model: str, *, alignment_heads: str | None, **options: Any
) -> LoadedBackend[Engine]:
    """Load *model*; raises as `find_and_load`, which takes *options*, and `find_heads`."""
    checkpoint, loaded = find_and_load(
        spec, model, bundled=BUNDLED, read=Checkpoint.read, load_model=load_model, **options
    )
    return loaded_backend(
        spec,
        checkpoint,
        text_config=loaded.config.text_config,
        alignment_heads=alignment_heads,
        open_network=partial(TorchNetwork, loaded),
    )
