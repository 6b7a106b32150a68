"""The digits model, loaded once."""

from __future__ import annotations

import pytest
import torch

from wlk_core import load_backend


@pytest.fixture(scope="session", autouse=True)
def _single_thread():
    """Keep torch to one thread, because tests run beside others."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def backend(_single_thread):
    """Return voxtral-hf with the bundled checkpoint."""
    with load_backend("voxtral-hf", "digits") as loaded:
        yield loaded
