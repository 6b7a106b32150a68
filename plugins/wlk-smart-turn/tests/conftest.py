"""A file with the tiny model, and audio with known words."""

from __future__ import annotations

from pathlib import Path
import sys

import numpy as np
import pytest

from wlk_core.options import resolve_options
from wlk_smart_turn import backend
from wlk_smart_turn.plugin import SMART_TURN

sys.path[:0] = [str(Path(__file__).parent)]

from tiny_model import tiny_model  # noqa: E402 -- needs the line above


@pytest.fixture
def model(tmp_path):
    """Return the path of a model that calls turns with more than 3 s of words over."""
    path = tmp_path / "tiny.onnx"
    path.write_bytes(tiny_model(slope=-1000.0, bias=-70.0))
    return path


@pytest.fixture
def load():
    """Return a function that loads the turn detector like the registry."""

    def load(model, **options):
        resolved = resolve_options(SMART_TURN.options, options, scope="backend", owner="smart-turn")
        return backend.load(SMART_TURN, str(model), **resolved)

    return load


@pytest.fixture
def noise():
    """Return ten seconds of noise that becomes louder, float32[n]."""
    samples = np.random.default_rng(1).normal(0.0, 0.1, 160_000) * np.linspace(0.1, 1.0, 160_000)
    return samples.astype(np.float32)
