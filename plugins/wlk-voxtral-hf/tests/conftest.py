"""The digits model, loaded once, and an engine with random weights."""

from __future__ import annotations

import pytest
import torch
from transformers import VoxtralRealtimeForConditionalGeneration

from wlk_core import load_backend
from wlk_voxtral.engine import VoxtralEngine
from wlk_voxtral_hf.torch.network import TorchNetwork


@pytest.fixture(scope="session", autouse=True)
def _single_thread():
    """Limit torch to one thread, because tests run in parallel."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def backend(_single_thread):
    """Return voxtral-hf with the bundled checkpoint."""
    with load_backend("voxtral-hf", "digits") as loaded:
        yield loaded


@pytest.fixture(scope="session")
def checkpoint(backend):
    """Return the config of the digits checkpoint."""
    return backend.engine.checkpoint


@pytest.fixture(scope="session")
def random_engine(backend, checkpoint):
    """
    Return an engine with random weights that predicts many different ids.

    The audio dominates, so that an error in any cache changes the predictions.
    """
    generator = torch.Generator().manual_seed(3)
    model = VoxtralRealtimeForConditionalGeneration(backend.engine.network.model.config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                weight.normal_(0, weight[0].numel() ** -0.5, generator=generator)
            if "linear_2" in name:
                weight.mul_(8)
    model.requires_grad_(False)
    return VoxtralEngine(TorchNetwork(model, eos_id=checkpoint.tokenizer.eos_id), checkpoint)
