"""Load a checkpoint on torch as the qwen3-simul backend."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import torch

from wlk_frameworks.torch import choose_device, choose_dtype
from wlk_qwen3_simul.backend import loaded_backend
from wlk_qwen3_simul.checkpoint import Checkpoint
from wlk_qwen3_simul.torch.checkpoint import load_model
from wlk_qwen3_simul.torch.network import TorchNetwork

if TYPE_CHECKING:
    from wlk_core.plugins import BackendSpec, LoadedBackend
    from wlk_qwen3_simul.engine.engine import Engine

logger = logging.getLogger(__name__)


def load(
    spec: BackendSpec,
    model: str,
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
    checkpoint = Checkpoint.find(model, spec=spec, cache_dir=cache_dir)
    loaded = load_model(
        checkpoint.directory,
        device=chosen,
        dtype=choose_dtype(
            dtype, device=chosen, declared=checkpoint.compute_type, accelerated=torch.bfloat16
        ),
    )
    logger.info("%s runs in %s on %s", checkpoint.name, loaded.dtype, chosen)
    return loaded_backend(
        spec,
        checkpoint,
        text_config=loaded.config.text_config,
        alignment_heads=alignment_heads,
        open_network=lambda heads: TorchNetwork(loaded, alignment_heads=heads),
    )
