"""The digits model, loaded once, and a model of random weights for exact comparisons."""

from __future__ import annotations

import pytest
import torch

from wlk_core import load_backend


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Keep to one thread: tests run beside others."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def backend(one_thread):
    """Return voxtral-hf with the bundled checkpoint."""
    with load_backend("voxtral-hf", "digits") as loaded:
        yield loaded
