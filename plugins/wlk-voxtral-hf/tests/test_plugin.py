"""What the plugin declares, and what it refuses."""

from __future__ import annotations

import ast
import json
from pathlib import Path
import shutil
import subprocess
import sys

import pytest
from safetensors.torch import load_file, save_file
import torch
from transformers import VoxtralRealtimeForConditionalGeneration

from wlk_core import BackendUnavailable, ModelNotFoundError, OptionError, StreamClosed, load_backend
import wlk_voxtral_hf
from wlk_voxtral_hf import memory
from wlk_voxtral_hf.plugin import VOXTRAL_HF, wlk_backends

ALLOWED = {"wlk_core", "wlk_core.errors", "wlk_core.streaming", "wlk_core.audio", "wlk_core.models"}
DIGITS = Path(wlk_voxtral_hf.__file__).parent / "digits"


def test_the_plugin_offers_one_backend():
    """The hook returns constant data."""
    assert [VOXTRAL_HF] == list(wlk_backends())
    assert "mini" == VOXTRAL_HF.default_model
    assert "bundled" == VOXTRAL_HF.models["digits"]


@pytest.mark.slow
def test_importing_the_plugin_brings_nothing_heavy():
    """Listing backends must not cost a framework."""
    heavy = ("numpy", "torch", "transformers", "huggingface_hub")
    code = f"import sys, wlk_voxtral_hf.plugin; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == done.stdout.strip()


def test_the_plugin_imports_only_what_the_core_offers():
    """Registry, session and command line are none of a plugin's business."""
    for path in Path(wlk_voxtral_hf.__file__).parent.rglob("*.py"):
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
    [({"device": "tpu"}, "one of auto, cpu, cuda, mps"), ({"dtype": "int4"}, "one of float32")],
)
def test_loading_refuses_what_it_cannot_do(asked, told):
    """A wrong option says what would be right."""
    with pytest.raises(OptionError, match=told):
        load_backend("voxtral-hf", "digits", **asked)


def test_a_device_that_is_absent_is_named():
    """No silent fall-back to the CPU."""
    absent = [
        name
        for name, there in (
            ("cuda", torch.cuda.is_available()),
            ("mps", torch.backends.mps.is_available()),
        )
        if not there
    ]
    for device in absent:
        with pytest.raises(BackendUnavailable, match=f"device={device} was asked for"):
            load_backend("voxtral-hf", "digits", device=device)


@pytest.fixture
def copy(tmp_path):
    """Return a copy of the digits checkpoint that a test may damage."""
    shutil.copytree(DIGITS, tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"multimodal": {}}, "the layout of voxmlx, which the backend voxtral-mlx reads"),
        ({"model_type": "voxtral_realtime", "encoder_args": {}, "decoder": {}}, "of mlx-audio"),
        ({"model_type": "whisper"}, "found LICENSE, config.json"),
    ],
    ids=["voxmlx", "mlx-audio", "another model"],
)
def test_another_layout_is_named(copy, config, told):
    """The message says what was found and which backend reads it."""
    (copy / "config.json").write_text(json.dumps(config))

    with pytest.raises(ModelNotFoundError, match=told):
        load_backend("voxtral-hf", str(copy))


def test_mistrals_own_layout_is_named(copy):
    """Its weights are whole, but transformers cannot read them."""
    (copy / "config.json").unlink()
    (copy / "params.json").write_text("{}")

    with pytest.raises(ModelNotFoundError, match="Mistral's own layout"):
        load_backend("voxtral-hf", str(copy))


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("tekken.json", None, "holds no tekken.json"),
        ("tekken.json", "{}", "no tokenizer of Voxtral Realtime"),
        ("model.safetensors", None, r"config.json without model\*.safetensors"),
        ("model.safetensors", "nothing of the kind", "could not be loaded"),
        ("config.json", "{", "is damaged"),
    ],
)
def test_a_damaged_checkpoint_is_named(copy, name, content, told):
    """What is missing or broken is said in one line."""
    if content is None:
        (copy / name).unlink()
    else:
        (copy / name).write_text(content)

    with pytest.raises(ModelNotFoundError, match=told) as caught:
        load_backend("voxtral-hf", str(copy))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda w: w.pop("audio_tower.layers.1.mlp.up_proj.weight"),
            r"lacks .*up_proj\.weight;",
        ),
        (
            lambda w: w.update({"language_model.model.norm.weight": torch.zeros(5)}),
            r"norm\.weight has the shape \(5,\), expected",
        ),
    ],
    ids=["missing", "another size"],
)
def test_a_checkpoint_with_holes_is_refused(copy, change, told, capfd):
    """No weight is made up, and nothing but the error is said."""
    weights = load_file(copy / "model.safetensors")
    change(weights)
    save_file(weights, copy / "model.safetensors")

    with pytest.raises(ModelNotFoundError, match=told) as caught:
        load_backend("voxtral-hf", str(copy))
    assert "\n" not in str(caught.value)
    assert ("", "") == capfd.readouterr()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, r"quantized \(gptq\)"),
        ({"quantization": {"bits": 4, "group_size": 64}}, r"\(\{.bits.: 4.* --backend voxtral-mlx"),
        ({"downsample_factor": "four"}, "downsample_factor"),
    ],
    ids=["gptq", "mlx", "no number"],
)
def test_a_configuration_that_cannot_be_run_is_named(copy, change, told):
    """A quantization, or a value of another type, is told with what to do."""
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, **change}))

    with pytest.raises(ModelNotFoundError, match=told) as caught:
        load_backend("voxtral-hf", str(copy))
    assert "\n" not in str(caught.value)


def test_a_model_larger_than_memory_is_refused(monkeypatch):
    """It is told before anything is read: what it takes, what there is, what to do."""
    needed = memory.bytes_of(DIGITS, torch.float32)
    monkeypatch.setattr(memory, "memory_of", lambda _device: needed - 1)

    with pytest.raises(
        BackendUnavailable, match=r"GB of memory in float32, and cpu has .*bfloat16"
    ):
        load_backend("voxtral-hf", "digits")
    monkeypatch.setattr(memory, "memory_of", lambda _device: needed)
    load_backend("voxtral-hf", "digits").close()


def test_a_file_larger_than_memory_is_weighed_by_its_header(tmp_path):
    """Nothing of it is mapped: the system would refuse, and in words that help nobody."""
    model = shutil.copytree(DIGITS, tmp_path / "model")
    number = 2 * int(memory.memory_of("cpu") or 0) // 2**30 + 1
    tensors = {
        f"{place}.weight": {
            "dtype": "BF16",
            "shape": [2**19, 1024],
            "data_offsets": [place * 2**30, (place + 1) * 2**30],
        }
        for place in range(number)
    }
    header = json.dumps(tensors).encode()
    with (model / "model.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + number * 2**30)  # a hole: it takes no space on the disk

    with pytest.raises(BackendUnavailable, match=r"GB of memory in float32, and cpu has"):
        load_backend("voxtral-hf", str(model))


def test_memory_that_runs_out_while_loading_is_told(monkeypatch):
    """Whoever says so in whatever words: the remedy is the same."""

    def full(*_args, **_options):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate")

    monkeypatch.setattr(VoxtralRealtimeForConditionalGeneration, "from_pretrained", full)

    with pytest.raises(BackendUnavailable, match="GB of memory in float32"):
        load_backend("voxtral-hf", "digits")


def test_this_machine_tells_its_memory():
    """Any machine that runs these tests has a gigabyte."""
    assert memory.memory_of("cpu") > 1e9


def test_the_digits_checkpoint_runs_in_float32(backend):
    """A small model pays for half precision: the checkpoint asks for float32 and gets it."""
    assert torch.float32 == backend.engine.dtype


def test_a_closed_backend_refuses_streams():
    """Streams that are open keep the model; new ones are refused."""
    closed = load_backend("voxtral-hf", "digits")
    closed.close()

    with pytest.raises(StreamClosed):
        closed.create_processor()
