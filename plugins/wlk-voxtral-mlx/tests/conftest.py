"""The digits model, loaded once, and small models with random weights in every layout."""

from __future__ import annotations

import json
from pathlib import Path
import shutil
import sys

import mlx.core as mx
from mlx.utils import tree_flatten
import numpy as np
import pytest

from wlk_core import load_backend
import wlk_voxtral_mlx
from wlk_voxtral_mlx.mlx.modules import Voxtral

sys.path.insert(0, str(Path(__file__).parent))

from file_layouts import SMALL, file_config, file_tensor, name_in_file

DIGITS = Path(wlk_voxtral_mlx.__file__).parent / "digits"


@pytest.fixture(scope="session")
def backend():
    """Return voxtral-mlx with the bundled checkpoint."""
    with load_backend("voxtral-mlx", "digits") as loaded:
        yield loaded


@pytest.fixture(scope="session")
def random_weights():
    """
    Return float32 weights of the small model under the names of our modules.

    The audio dominates, so that an error in any cache changes the predictions.
    """
    rng = np.random.default_rng(5)
    weights = {}
    for name, tensor in tree_flatten(Voxtral(SMALL).parameters()):
        spread = 0.05 if tensor.ndim == 1 else float(np.prod(tensor.shape[1:])) ** -0.5
        values = rng.normal(0, spread, tensor.shape).astype(np.float32)
        if "norm" in name.split(".")[-2] and tensor.ndim == 1:
            values += 1
        if name == "adapter.w_out.weight":
            values *= 8
        weights[name] = mx.array(values)
    return weights


@pytest.fixture(scope="session")
def write(random_weights):
    """Return a function that writes the small model to a directory in a given layout."""

    def write_files(directory, layout, *, weights=None, config=None, sizes=SMALL):
        directory.mkdir(parents=True, exist_ok=True)
        tensors = {
            name_in_file(name, layout): file_tensor(name, tensor, layout, sizes)
            for name, tensor in (weights or random_weights).items()
        }
        is_mistral = layout == "Mistral"
        file = "consolidated.safetensors" if is_mistral else "model.safetensors"
        mx.save_safetensors(str(directory / file), tensors)
        content = {**file_config(sizes, layout), **(config or {})}
        config_file = directory / ("params.json" if is_mistral else "config.json")
        config_file.write_text(json.dumps(content))
        shutil.copyfile(DIGITS / "tekken.json", directory / "tekken.json")
        return directory

    return write_files
