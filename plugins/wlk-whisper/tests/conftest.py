"""The digits model, loaded once for all tests."""

from __future__ import annotations

import pytest

from wlk_core import load_backend


@pytest.fixture(scope="session")
def backend():
    """Return faster-whisper with the bundled checkpoint."""
    with load_backend("faster-whisper", "digits") as loaded:
        yield loaded
