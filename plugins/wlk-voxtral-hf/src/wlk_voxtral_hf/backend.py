"""The voxtral-hf backend: load a model of transformers and open streams on it."""

from __future__ import annotations

import logging
from pathlib import Path

import torch

from wlk_core.models import locate
from wlk_voxtral.backend import DelayedBackend
from wlk_voxtral_hf.checkpoint import read_checkpoint
from wlk_voxtral_hf.engine import VoxtralEngine
from wlk_voxtral_hf.loading import device_of, load_network
from wlk_voxtral_hf.plugin import VOXTRAL_HF

__all__ = ["VoxtralBackend"]

logger = logging.getLogger(__name__)


class VoxtralBackend(DelayedBackend[VoxtralEngine]):
    """A Voxtral Realtime model shared by any number of streams."""

    @classmethod
    def load(
        cls,
        model: str | None,
        *,
        device: str = "auto",
        dtype: str | None = None,
        cache_dir: str | None = None,
    ) -> VoxtralBackend:
        """
        Find *model* and load it.

        Raises:
            ModelNotFoundError: it is not there, or is no Voxtral Realtime model of transformers.
            BackendUnavailable: the device is not to be had, or has too little memory.

        """
        name = model or str(VOXTRAL_HF.default_model)
        bundled = {"digits": Path(__file__).parent / "digits"}
        directory = locate(name, spec=VOXTRAL_HF, bundled=bundled, cache_dir=cache_dir, needs=())
        told = read_checkpoint(directory, name=name)
        place = device_of(device)
        wanted = dtype or told.dtype or ("float32" if place == "cpu" else "bfloat16")
        network = load_network(directory, place, getattr(torch, wanted))
        logger.info("%s runs in %s on %s", name, wanted, place)
        engine = VoxtralEngine(network, tekken=told.tekken, log_mel=told.log_mel)
        return cls(VOXTRAL_HF, engine, told)
