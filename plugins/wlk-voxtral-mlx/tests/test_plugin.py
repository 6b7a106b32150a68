"""What the plugin declares, and what it refuses."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path
import shutil
import subprocess
import sys

import mlx.core as mx
import pytest

from wlk_core import BackendUnavailable, ModelNotFoundError, OptionError, StreamClosed, load_backend
import wlk_voxtral_mlx
from wlk_voxtral_mlx import backend as backend_module
from wlk_voxtral_mlx import memory, voxmlx_model
from wlk_voxtral_mlx.framework import require_mlx
from wlk_voxtral_mlx.plugin import VOXTRAL_MLX, wlk_backends
from wlk_voxtral_mlx.weights import read_tensors

ALLOWED = {"wlk_core", "wlk_core.errors", "wlk_core.streaming", "wlk_core.audio", "wlk_core.models"}
DIGITS = Path(wlk_voxtral_mlx.__file__).parent / "digits"


def test_the_plugin_offers_one_backend():
    """The hook returns constant data."""
    assert [VOXTRAL_MLX] == list(wlk_backends())
    assert "mini-6bit" == VOXTRAL_MLX.default_model
    assert "bundled" == VOXTRAL_MLX.models["digits"]


@pytest.mark.slow
def test_importing_the_plugin_brings_nothing_heavy():
    """Listing backends must not cost a framework."""
    heavy = ("numpy", "mlx", "voxmlx", "huggingface_hub")
    code = f"import sys, wlk_voxtral_mlx.plugin; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == done.stdout.strip()


def test_the_plugin_imports_only_what_the_core_offers():
    """Registry, session and command line are none of a plugin's business."""
    for path in Path(wlk_voxtral_mlx.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            if module.startswith("wlk_core"):
                assert module in ALLOWED, path


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"language": "en"}, "detects the language by itself"),
        ({"task": "translate"}, "cannot do the task 'translate'"),
        ({"policy": "alignatt"}, "no option is called 'policy'"),
        ({"delay_ms": 100}, "trained for a delay_ms of 240, 480, 800"),
        ({"delay_ms": 560}, "trained for a delay_ms of 240, 480, 800"),
        ({"delay_ms": 4000}, "between 80 and 2400"),
        ({"draft_steps": 0}, "between 1 and 16"),
        ({"device": "cpu"}, "given to load_backend"),
    ],
)
def test_a_stream_refuses_what_it_cannot_do(backend, asked, told):
    """Nothing the user says is dropped in silence."""
    with pytest.raises(OptionError, match=told):
        backend.create_processor(**asked)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"device": "tpu"}, "one of auto, cpu, gpu"),
        ({"dtype": "int4"}, "one of float32"),
        ({"engine": "mlx-audio"}, "one of native, voxmlx"),
    ],
)
def test_loading_refuses_what_it_cannot_do(asked, told):
    """A wrong option says what would be right."""
    with pytest.raises(OptionError, match=told):
        load_backend("voxtral-mlx", "digits", **asked)


def test_a_gpu_that_is_absent_is_named():
    """No silent fall-back to the CPU."""
    if mx.is_available(mx.gpu):
        pytest.skip("there is one")
    with pytest.raises(BackendUnavailable, match="device=gpu was asked for"):
        load_backend("voxtral-mlx", "digits", device="gpu")


def test_mlx_without_a_back_end_is_named(monkeypatch):
    """The bare wheel on Linux imports nothing: the reason and the command are told."""
    monkeypatch.setitem(sys.modules, "mlx.core", None)

    with pytest.raises(BackendUnavailable, match=r"no back end on Linux: pip install .*\[cpu\]"):
        require_mlx()


def test_voxmlx_that_is_absent_is_named(monkeypatch):
    """An engine that was asked for is not replaced in silence."""
    monkeypatch.setattr(voxmlx_model, "find_spec", lambda _name: None)

    with pytest.raises(BackendUnavailable, match=r"pip install 'wlk-voxtral-mlx\[voxmlx\]'"):
        load_backend("voxtral-mlx", "digits", engine="voxmlx")


@pytest.fixture
def copy(tmp_path):
    """Return a copy of the digits checkpoint that a test may damage."""
    shutil.copytree(DIGITS, tmp_path / "model")
    return tmp_path / "model"


def test_a_directory_of_another_kind_is_named(tmp_path):
    """The message says what was expected, what was found and how to get it."""
    (tmp_path / "config.json").write_text('{"model_type": "whisper"}')

    with pytest.raises(ModelNotFoundError, match=r"found config\.json; get one with:"):
        load_backend("voxtral-mlx", str(tmp_path))


@pytest.mark.skipif(find_spec("voxmlx") is None, reason="pip install 'wlk-voxtral-mlx[voxmlx]'")
def test_a_layout_that_voxmlx_cannot_read_is_named(write, tmp_path):
    """It would stop at a missing key."""
    directory = write(tmp_path / "model", "transformers")

    with pytest.raises(ModelNotFoundError, match="layout of transformers, and voxmlx reads those"):
        load_backend("voxtral-mlx", str(directory), engine="voxmlx")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("tekken.json", None, "holds no tekken.json"),
        ("tekken.json", "{}", "no tokenizer of Voxtral Realtime"),
        ("consolidated.safetensors", None, "found LICENSE, params.json"),
        ("consolidated.safetensors", "nothing of the kind", "cannot be read"),
        ("params.json", "{", "is damaged"),
        ("params.json", "{}", "describes no Voxtral Realtime model"),
    ],
)
def test_a_damaged_checkpoint_is_named(copy, name, content, told):
    """What is missing or broken is said in one line."""
    if content is None:
        (copy / name).unlink()
    else:
        (copy / name).write_text(content)

    with pytest.raises(ModelNotFoundError, match=told) as caught:
        load_backend("voxtral-mlx", str(copy))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_model_larger_than_memory_is_refused(monkeypatch, dtype):
    """It is told before anything is read: what it takes, what there is, what to do."""
    tensors = read_tensors(DIGITS).values()
    needed = sum(one.size for one in tensors) * (4 if dtype == "float32" else 2)
    monkeypatch.setattr(memory, "memory_of", lambda: needed - 1)

    with pytest.raises(BackendUnavailable, match=r"GB of memory, and there are .* mini-4bit"):
        load_backend("voxtral-mlx", "digits", dtype=dtype)
    monkeypatch.setattr(memory, "memory_of", lambda: needed)
    load_backend("voxtral-mlx", "digits", dtype=dtype).close()


def test_memory_that_runs_out_while_loading_is_told(monkeypatch):
    """MLX says so with a RuntimeError."""

    def full(*_args, **_options):
        raise RuntimeError("[metal::malloc] Attempting to allocate 9000000000 bytes")

    monkeypatch.setattr(backend_module, "build", full)

    with pytest.raises(BackendUnavailable, match=r"could not be brought into memory: .*mini-4bit"):
        load_backend("voxtral-mlx", "digits")


def test_this_machine_tells_its_memory():
    """Any machine that runs these tests has a gigabyte."""
    assert memory.memory_of() > 1e9


@pytest.mark.skipif(find_spec("voxmlx") is None, reason="pip install 'wlk-voxtral-mlx[voxmlx]'")
def test_voxmlx_refuses_a_checkpoint_with_holes(write, random_weights, tmp_path, capfd):
    """Its error is told in one line like those of the native engine."""
    weights = {name: one for name, one in random_weights.items() if "layers.1.mlp.up" not in name}
    directory = write(tmp_path / "holes", "voxmlx", weights=weights)

    with pytest.raises(ModelNotFoundError, match=r"voxmlx layout and .*up_proj") as caught:
        load_backend("voxtral-mlx", str(directory), engine="voxmlx")
    assert "\n" not in str(caught.value)
    assert not capfd.readouterr().out


def test_the_digits_checkpoint_runs_in_float32(backend):
    """A small model pays for half precision: the checkpoint asks for float32 and gets it."""
    assert mx.float32 == backend.engine._model.language_model.norm.weight.dtype


def test_a_closed_backend_refuses_streams():
    """Streams that are open keep the model; new ones are refused."""
    closed = load_backend("voxtral-mlx", "digits")
    closed.close()

    with pytest.raises(StreamClosed):
        closed.create_processor()
