"""The digits model, loaded once per decoding method."""

from __future__ import annotations

from pathlib import Path
import sys

import pytest

from wlk_core import load_backend

sys.path.insert(0, str(Path(__file__).parent))  # onnx_files


@pytest.fixture(scope="session")
def backend():
    """Return sherpa with the bundled checkpoint and greedy search."""
    with load_backend("sherpa", "digits") as loaded:
        yield loaded


@pytest.fixture(scope="session")
def beam():
    """Return sherpa with modified beam search, which supports keyterms."""
    with load_backend("sherpa", "digits", beam_size=4) as loaded:
        yield loaded
