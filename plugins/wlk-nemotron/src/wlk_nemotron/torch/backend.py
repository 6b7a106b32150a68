"""Find a checkpoint and load it on torch as the nemotron backend."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from transformers import NemotronAsrStreamingFeatureExtractor

from wlk_core.plugins import locate
from wlk_frameworks.torch import choose_device, choose_dtype
from wlk_nemotron.backend import loaded_backend
from wlk_nemotron.checkpoint import CheckpointConfig
from wlk_nemotron.torch.network import NemotronEngine
from wlk_nemotron.torch.weights import load_model

if TYPE_CHECKING:
    from wlk_core.plugins import Backend, BackendSpec

BUNDLED = {"digits": Path(__file__).parents[1] / "digits"}

logger = logging.getLogger(__name__)


def load(
    spec: BackendSpec,
    model: str,
    *,
    device: str = "auto",
    dtype: str = "auto",
    cache_dir: str | None = None,
) -> Backend:
    """
    Find *model* and load it.

    `dtype` "auto" is the checkpoint's own, or the default of `choose_dtype` if it declares none.

    Raises:
        ModelNotFoundError: the model is missing, or not a Nemotron ASR model of transformers.
        BackendUnavailable: the device is missing, or has too little memory.

    """
    directory = locate(model, spec=spec, bundled=BUNDLED, cache_dir=cache_dir, needs=())
    checkpoint = CheckpointConfig.read(directory, name=model)
    torch_device = choose_device(device)
    torch_dtype = choose_dtype(
        dtype, device=torch_device, declared=checkpoint.dtype, accelerated=torch.bfloat16
    )
    loaded = load_model(directory, torch_device, torch_dtype)
    extractor = NemotronAsrStreamingFeatureExtractor.from_pretrained(
        directory, local_files_only=True
    )
    logger.info("%s runs in %s on %s", model, torch_dtype, torch_device)
    return loaded_backend(spec, NemotronEngine(loaded, extractor, checkpoint))
