"""What holds for both backends, with the digits checkpoint, wherever they are installed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
import json
import math
from pathlib import Path
import shutil
import sys
from types import ModuleType

import attrs
import pytest

from wlk_conformance.testing import noise
from wlk_core import BackendUnavailable, ModelNotFoundError, load_backend
from wlk_core.streaming import LogMel


@attrs.frozen(kw_only=True)
class Plugin:
    """A plugin under test and the names in which it differs from the other."""

    backend: str
    framework: str  #: its folder
    config: str
    weights: str
    devices: tuple[str, ...]

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
        devices=("cpu", "cuda", "mps"),
    ),
    Plugin(
        backend="voxtral-mlx",
        framework="mlx",
        config="params.json",
        weights="consolidated.safetensors",
        devices=("cpu", "gpu"),
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


@pytest.fixture
def checkpoint(plugin, tmp_path):
    """Return a copy of the digits checkpoint that a test may damage."""
    return shutil.copytree(plugin.folder / "digits", tmp_path / "model")


def test_a_framework_that_cannot_be_imported_is_unavailable(plugin, monkeypatch):
    """Importing it may raise anything: the message has the reason and the command."""

    class Broken(ModuleType):
        def __getattr__(self, name):
            raise OSError(f"libtorchaudio.so: undefined symbol, wanted by {name}")

    room = f"{plugin.package}.{plugin.framework}"
    plugin.module("backend")
    monkeypatch.delitem(sys.modules, f"{room}.backend")
    monkeypatch.setitem(sys.modules, f"{room}.network", Broken("network"))

    with pytest.raises(BackendUnavailable, match=r"undefined symbol.*pip install .*wlk-voxtral"):
        load_backend(plugin.backend, "digits")


@pytest.mark.parametrize(
    ("role", "content", "message"),
    [
        ("tokenizer", None, r"contains no tekken\.json"),
        ("tokenizer", "{}", "not a tokenizer of Voxtral Realtime"),
        ("weights", None, "expected a Voxtral Realtime model"),
        ("weights", "not a file of tensors", r"is damaged|cannot be read|could not be loaded"),
        ("config", "{", "is damaged"),
        ("config", "{}", r"expected a Voxtral|describes no Voxtral"),
    ],
)
def test_a_damaged_checkpoint_is_refused(plugin, checkpoint, role, content, message):
    """What is missing or broken is reported in one line."""
    names = {"tokenizer": "tekken.json", "weights": plugin.weights, "config": plugin.config}
    file = checkpoint / names[role]
    if content is None:
        file.unlink()
    else:
        file.write_text(content)

    with pytest.raises(ModelNotFoundError, match=message) as caught:
        load_backend(plugin.backend, str(checkpoint))
    assert "\n" not in str(caught.value)


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


def test_the_digits_checkpoint_runs_in_float32(backend):
    """A small model pays for half precision, so the checkpoint declares float32."""
    assert 1e-3 == backend.engine.network.min_margin


def test_half_precision_needs_a_wider_margin(plugin):
    """Its predictions in a wide pass differ by more from those of single steps."""
    with load_backend(plugin.backend, "digits", dtype="bfloat16") as loaded:
        assert 0.25 == loaded.engine.network.min_margin


def test_a_state_is_never_changed(backend):
    """The same call on the same state gives the same answer, so a failed call can be repeated."""
    engine = backend.engine
    mel = LogMel()(noise(1.0, level=0.1, seed=7)[: 8 * 1280 + 240])
    _, state, _ = engine.decode(mel, None, delay_steps=6, draft_steps=8)
    answers = [engine.decode(mel, state, delay_steps=6, draft_steps=8) for _ in range(2)]
    (first, new_state, _), (again, same_state, _) = answers

    assert first == again
    assert new_state.nbytes == same_state.nbytes
