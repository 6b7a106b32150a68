"""The qwen3-simul backend: load a checkpoint and run it on torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from wlk_core.frameworks.torch import choose_device, choose_dtype
from wlk_qwen3_simul.backend import Loading
from wlk_qwen3_simul.torch.checkpoint import check_directory, load_model
from wlk_qwen3_simul.torch.network import TorchNetwork

if TYPE_CHECKING:
    from wlk_core.plugins import BackendSpec, LoadedBackend
    from wlk_qwen3_simul.engine.engine import Engine

__all__ = ["load"]


def load(
    spec: BackendSpec,
    model: str | None,
    *,
    device: str,
    dtype: str,
    alignment_heads: str | None,
    cache_dir: str | None,
) -> LoadedBackend[Engine]:
    """
    Find *model* and load it.

    Raises:
        ModelNotFoundError: the model is missing or damaged, or is not a Qwen3-ASR.
        OptionError: the alignment heads are unknown or do not fit the model.
        BackendUnavailable: the machine has no such device.

    """
    chosen = choose_device(device)
    loading = Loading(spec, model, cache_dir=cache_dir, check_directory=check_directory)
    declared = loading.checkpoint.compute_type
    loaded = load_model(
        loading.directory,
        device=chosen,
        dtype=choose_dtype(dtype, device=chosen, declared=declared, accelerated=torch.bfloat16),
    )
    text: Any = loaded.config.text_config
    heads = loading.find_heads(alignment_heads, text)
    network = TorchNetwork(loaded, alignment_heads=heads.pairs)
    return loading.backend(network, heads, dtype=network.dtype, device=network.device)
