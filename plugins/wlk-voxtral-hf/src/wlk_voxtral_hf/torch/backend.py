"""The backend voxtral-hf: find a checkpoint, load it on torch, open streams on it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from wlk_core import BackendUnavailable
from wlk_core.models import locate
from wlk_voxtral.backend import VoxtralBackend
from wlk_voxtral.engine import VoxtralEngine
from wlk_voxtral_hf.checkpoint import read_checkpoint
from wlk_voxtral_hf.torch.network import TorchNetwork
from wlk_voxtral_hf.torch.weights import load_model

if TYPE_CHECKING:
    from wlk_core import Backend, BackendSpec

__all__ = ["load"]

DIGITS = Path(__file__).parents[1] / "digits"

logger = logging.getLogger(__name__)


def load(
    spec: BackendSpec,
    model: str | None,
    *,
    device: str = "auto",
    dtype: str = "auto",
    cache_dir: str | None = None,
) -> Backend:
    """
    Find *model* and load it.

    With `dtype` "auto" the checkpoint decides, else it is bfloat16 on an accelerator and float32 on
    a CPU.

    Raises:
        ModelNotFoundError: the model is absent, or no Voxtral Realtime model of transformers.
        BackendUnavailable: the device is absent, or has too little memory.

    """
    name = model or str(spec.default_model)
    directory = locate(name, spec=spec, bundled={"digits": DIGITS}, cache_dir=cache_dir, needs=())
    settings = read_checkpoint(directory, name=name)
    device = _choose_device(device)
    if dtype == "auto":
        dtype = settings.dtype or ("float32" if device == "cpu" else "bfloat16")
    loaded = load_model(directory, device, getattr(torch, dtype))
    logger.info("%s runs in %s on %s", name, dtype, device)
    network = TorchNetwork(loaded, eos_id=settings.tokenizer.eos_id)
    return VoxtralBackend(spec, VoxtralEngine(network, settings))


def _choose_device(device: str) -> str:
    if device == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise BackendUnavailable(
            "device=cuda was requested and torch finds no CUDA device; check nvidia-smi and that "
            "torch is a CUDA build, or leave the device out"
        )
    if device == "mps" and not torch.backends.mps.is_available():
        raise BackendUnavailable(
            "device=mps was requested and torch finds no Apple GPU; leave the device out"
        )
    return device
