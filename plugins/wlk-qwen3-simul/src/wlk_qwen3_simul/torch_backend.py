"""The qwen3-simul backend: load a checkpoint and run it on torch."""

from __future__ import annotations

import logging
from typing import Any

import torch

from wlk_core.models import locate
from wlk_qwen3_simul.backend import SimulBackend
from wlk_qwen3_simul.loading import BUNDLED, find_heads, read_beside
from wlk_qwen3_simul.simul.engine import Engine
from wlk_qwen3_simul.specs import QWEN3_SIMUL
from wlk_qwen3_simul.torch_checkpoint import load_model
from wlk_qwen3_simul.torch_device import device_of
from wlk_qwen3_simul.torch_network import TorchNetwork

__all__ = ["load"]

logger = logging.getLogger(__name__)

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def load(
    model: str | None,
    *,
    device: str = "auto",
    dtype: str = "auto",
    alignment_heads: str | None = None,
    cache_dir: str | None = None,
) -> SimulBackend:
    """
    Find *model* and load it.

    Raises:
        ModelNotFoundError: it is not there, or is no Qwen3-ASR.
        OptionError: the alignment heads are unknown or do not fit the model.
        BackendUnavailable: the device is not to be had.

    """
    place = device_of(device)
    name = model or str(QWEN3_SIMUL.default_model)
    directory = locate(name, spec=QWEN3_SIMUL, bundled=BUNDLED, cache_dir=cache_dir)
    checkpoint, vocabulary = read_beside(directory, name=name)
    wanted = checkpoint.compute_type if dtype == "auto" else dtype
    fallback = torch.float32 if place.type == "cpu" else torch.bfloat16
    loaded = load_model(directory, device=place, dtype=DTYPES.get(wanted, fallback))
    text: Any = loaded.config.text_config
    heads = find_heads(
        alignment_heads,
        directory,
        name=name,
        layers=text.num_hidden_layers,
        heads=text.num_attention_heads,
    )
    network = TorchNetwork(loaded, alignment_heads=heads.pairs)
    logger.info("%s runs in %s on %s", name, network.dtype, network.device)
    engine = Engine(
        network=network,
        vocabulary=vocabulary,
        checkpoint=checkpoint,
        by_self=heads.row == "self",
    )
    return SimulBackend(QWEN3_SIMUL, engine)
