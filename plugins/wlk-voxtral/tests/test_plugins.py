"""What holds for both backends, with the digits checkpoint, wherever they are installed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
import json
import math
from pathlib import Path

import attrs
import pytest

from wlk_core import BackendUnavailable, load_backend


@attrs.frozen(kw_only=True)
class Plugin:
    """A plugin under test and the names in which it differs from the other."""

    backend: str
    framework: str  #: its folder
    config: str
    weights: str

    @property
    def package(self):
        """The name of its import package."""
        return f"wlk_{self.backend.replace('-', '_')}"

    @property
    def folder(self):
        """The folder of its import package."""
        return Path(import_module(self.package).__file__).parent

    def module(self, name):
        """Return a module of its framework's folder."""
        return import_module(f"{self.package}.{self.framework}.{name}")


PLUGINS = [
    Plugin(
        backend="voxtral-hf",
        framework="torch",
        config="config.json",
        weights="model.safetensors",
    ),
    Plugin(
        backend="voxtral-mlx",
        framework="mlx",
        config="params.json",
        weights="consolidated.safetensors",
    ),
]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(
            plugin,
            id=plugin.backend,
            marks=pytest.mark.skipif(
                find_spec(plugin.package) is None or find_spec(plugin.framework) is None,
                reason=f"pip install wlk-{plugin.backend}",
            ),
        )
        for plugin in PLUGINS
    ],
)
def plugin(request):
    """Return each plugin that is installed."""
    return request.param


@pytest.fixture(scope="module")
def backend(plugin):
    """Return the backend of the plugin with the bundled checkpoint."""
    if plugin.framework == "torch":
        import_module("torch").set_num_threads(1)  # tests run beside others
    with load_backend(plugin.backend, "digits") as loaded:
        yield loaded


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("bfloat16", 2)])
def test_a_model_larger_than_memory_is_refused(plugin, monkeypatch, dtype, size):
    """The message gives what the model takes, what the device has, and what to choose."""
    module = plugin.module("weights" if plugin.framework == "torch" else "backend")
    needed = size * values_in(plugin.folder / "digits" / plugin.weights)
    monkeypatch.setattr(module, "available_memory", lambda _device: needed - 1)
    message = f"in {dtype} needs .* GB of memory, and cpu has .*; choose .*quantized model"

    with pytest.raises(BackendUnavailable, match=message):
        load_backend(plugin.backend, "digits", device="cpu", dtype=dtype)
    monkeypatch.setattr(module, "available_memory", lambda _device: needed)
    load_backend(plugin.backend, "digits", device="cpu", dtype=dtype).close()


def values_in(file):
    """Return the number of values in a safetensors file, read from its header."""
    with file.open("rb") as stream:
        header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
    return sum(math.prod(entry["shape"]) for name, entry in header.items() if name[0] != "_")


def test_half_precision_needs_a_wider_margin(plugin, backend):
    """The digits checkpoint declares float32; rounding of wide passes is coarser in bfloat16."""
    with load_backend(plugin.backend, "digits", dtype="bfloat16") as half:
        margins = [each.engine.network.min_margin for each in (backend, half)]

    assert [1e-3, 0.25] == margins
