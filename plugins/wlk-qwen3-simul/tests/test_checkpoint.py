"""Either framework loads a Qwen3-ASR, and refuses one that is incomplete."""

from __future__ import annotations

import json
from unittest.mock import Mock

import numpy as np
import pytest

from wlk_core import BackendUnavailable, ModelNotFoundError, load_backend
from wlk_qwen3_simul.checkpoint import Checkpoint


def load_torch(directory):
    """Load a directory in float32 on the CPU; return the model, its embedding and its lm_head."""
    import torch  # noqa: PLC0415 -- not everywhere

    from wlk_qwen3_simul.torch.checkpoint import load_model  # noqa: PLC0415 -- imports torch

    model = load_model(directory, device=torch.device("cpu"), dtype=torch.float32)
    layers = (model.get_input_embeddings(), model.lm_head)
    return model, *(layer.weight.numpy() for layer in layers)


def load_mlx(directory, dtype="float32"):
    """Load a directory on the CPU; return the model, its embedding and its lm_head."""
    pytest.importorskip("mlx_qwen3_asr", reason="needs wlk-qwen3-simul[mlx]")
    import mlx.core as mx  # noqa: PLC0415 -- not everywhere

    from wlk_frameworks.mlx import shared_stream  # noqa: PLC0415 -- imports MLX
    from wlk_qwen3_simul.mlx.checkpoint import load_model  # noqa: PLC0415 -- imports MLX

    with shared_stream("cpu", install_hint="").acquire():
        model = load_model(directory, dtype=getattr(mx, dtype))
        layers = (model.model.embed_tokens, model.lm_head)
        return model, *(np.array(layer.weight.astype(mx.float32)) for layer in layers)


each_framework = pytest.mark.parametrize("load", [load_torch, load_mlx], ids=["torch", "mlx"])


def test_both_layouts_are_the_same_model_on_torch(tiny, tmp_path, checkpoint):
    """The original layout has other names for the same weights, key for key."""
    theirs = load_torch(tiny.write_checkpoint(tmp_path / "hf", layout="hf"))[0].state_dict()
    original = load_torch(checkpoint)[0].state_dict()

    assert "thinker_config" in json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    assert original.keys() == theirs.keys()
    assert all(weights.equal(theirs[name]) for name, weights in original.items())


@pytest.mark.usefixtures("checkpoint")  # skips without torch, which writing another one needs
def test_the_layout_of_transformers_is_refused_on_mlx_with_what_helps(tiny, tmp_path):
    """MLX reads the original layout only."""
    other = tiny.write_checkpoint(tmp_path / "hf", layout="hf")

    with pytest.raises(ModelNotFoundError, match=r"original repository.*backend qwen3-simul"):
        load_mlx(other)


@each_framework
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (lambda state: state.popitem(), r"1 missing \(|Missing 1 parameters"),
        (
            lambda state: state.update(more=next(iter(state.values())).clone()),
            r"1 unknown \(more\)|Received 1 parameters.*more",
        ),
        (
            lambda state: state.update(
                {"thinker.model.norm.weight": next(iter(state.values())).clone()}
            ),
            r"1 of another shape|ignore_mismatched_sizes|Expected shape.*norm\.weight",
        ),
    ],
    ids=["a key too few", "a key too many", "another shape"],
)
def test_weights_that_do_not_fit_key_for_key_are_refused(altered, load, weights, message):
    """A model with random weights would still emit text."""
    with pytest.raises(ModelNotFoundError, match=message) as caught:
        load(altered(weights=weights))
    assert "pull the model again" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_device_without_enough_memory_is_named(checkpoint, monkeypatch):
    """Another model or device helps, not another installation; other failures stay as they are."""
    torch = pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
    errors = [RuntimeError("device lost"), torch.OutOfMemoryError]
    monkeypatch.setattr("torch.nn.Module.to", Mock(side_effect=errors))

    with pytest.raises(RuntimeError, match=r"^device lost$"):
        load_torch(checkpoint)
    with pytest.raises(
        BackendUnavailable, match=r"GB of memory.*; choose dtype=bfloat16, a smaller model"
    ):
        load_torch(checkpoint)


@each_framework
def test_features_of_another_model_are_refused(altered, load):
    """The message names both files."""
    directory = altered()
    path = directory / "preprocessor_config.json"
    path.write_text(json.dumps({"feature_size": 80}), encoding="utf-8")

    with pytest.raises(ModelNotFoundError, match=r"feature_size=80, but config\.json .*_bins="):
        load(directory)


def head(change):
    """Return a change of the weights that adds a changed copy of the embedding as the lm_head."""

    def weights(state):
        state["thinker.lm_head.weight"] = change(state["thinker.model.embed_tokens.weight"])

    return weights


def untie(thinker):
    """Untie the lm_head in the text config."""
    thinker["text_config"]["tie_word_embeddings"] = False


def untie_above(thinker):
    """Untie the lm_head outside the text config, which does not decide it."""
    del thinker["text_config"]["tie_word_embeddings"]
    thinker["tie_word_embeddings"] = False


@each_framework
@pytest.mark.parametrize("untied", [untie, untie_above])
def test_a_missing_head_of_its_own_is_refused(altered, load, untied):
    """The embedding replaces the lm_head only if the config ties them."""
    with pytest.raises(ModelNotFoundError, match=r"lm_head.*pull the model again"):
        load(altered(config=untied))


@each_framework
def test_a_head_of_its_own_is_loaded(altered, load):
    """An untied lm_head has the weights of the file."""
    directory = altered(config=untie, weights=head(lambda embedding: embedding + 1))
    _, embedding, own = load(directory)

    assert own == pytest.approx(embedding + 1)


def test_a_tied_head_with_weights_of_its_own_is_refused_on_mlx(altered):
    """MLX would drop its weights."""
    with pytest.raises(ModelNotFoundError, match=r"an lm_head of their own"):
        load_mlx(altered(weights=head(lambda embedding: embedding + 1)))


def test_a_tied_head_with_weights_of_its_own_is_kept_on_torch(altered):
    """Transformers reads an lm_head in the file, whatever the config says."""
    _, embedding, own = load_torch(altered(weights=head(lambda embedding: embedding + 1)))

    assert own == pytest.approx(embedding + 1)


@pytest.fixture
def quantized(checkpoint, tmp_path):
    """Return a function that writes the tiny checkpoint quantized, as mlx-community does."""
    pytest.importorskip("mlx_qwen3_asr", reason="needs wlk-qwen3-simul[mlx]")
    from mlx import nn  # noqa: PLC0415 -- not everywhere
    import mlx.core as mx  # noqa: PLC0415 -- not everywhere
    from mlx.utils import tree_flatten  # noqa: PLC0415 -- not everywhere

    def make(bits):
        for file in checkpoint.iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes())
        model = load_mlx(checkpoint)[0]
        nn.quantize(
            model.model,
            group_size=32,
            bits=bits,
            class_predicate=lambda _, module: (
                hasattr(module, "to_quantized") and module.weight.shape[-1] % 32 == 0
            ),
        )
        weights = dict(tree_flatten(model.parameters()))
        weights = {name: each for name, each in weights.items() if "lm_head" not in name}
        mx.save_safetensors(str(tmp_path / "model.safetensors"), weights)
        table = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
        table["quantization"] = table["quantization_config"] = {"group_size": 32, "bits": bits}
        (tmp_path / "config.json").write_text(json.dumps(table), encoding="utf-8")
        return tmp_path

    return make


def test_quantized_weights_are_run_by_mlx_with_a_warning_on_a_cpu(quantized, caplog):
    """The warning says that they are slow on a CPU."""
    with load_backend("qwen3-mlx-simul", str(quantized(8)), device="cpu") as backend:
        backend.warmup()

    assert "slowly on a CPU" in caplog.text


def test_quantized_weights_are_refused_on_torch(quantized):
    """The error names the backend that reads them."""
    with pytest.raises(ModelNotFoundError, match=r"quantized.*or the backend qwen3-mlx-simul"):
        load_backend("qwen3-simul", str(quantized(8)))


def test_an_unsupported_bit_width_is_refused(quantized):
    """The error names the widths that mlx-qwen3-asr reads."""
    with pytest.raises(ModelNotFoundError, match="to 6 bits, but mlx-qwen3-asr reads only 2"):
        load_mlx(quantized(6))


def test_packed_weights_need_the_memory_of_their_packed_32_bit_integers(quantized, monkeypatch):
    """An integer holds several weights; the others are floats of `dtype`."""
    directory, needed = quantized(4), []
    from mlx.utils import tree_flatten  # noqa: PLC0415 -- not everywhere

    monkeypatch.setattr(
        "wlk_qwen3_simul.mlx.checkpoint.require_memory",
        lambda _, **sizes: needed.append(sizes["needed"]),
    )
    model = load_mlx(directory, "float16")[0]
    arrays = {name: array for name, array in tree_flatten(model.parameters()) if "lm" not in name}

    assert {str(array.dtype).split(".")[-1] for array in arrays.values()} == {"float16", "uint32"}
    assert [sum(array.nbytes for array in arrays.values())] == needed


def test_a_checkpoint_declares_its_config(tmp_path):
    """`wlk.json` declares its languages, its dtype and its buffer length."""
    table = {"languages": ["en", "de"], "compute_type": "bfloat16", "buffer_seconds": 16}
    (tmp_path / "wlk.json").write_text(json.dumps(table), encoding="utf-8")
    checkpoint = Checkpoint.read(tmp_path, name="own")

    assert checkpoint.languages == ("en", "de")
    assert checkpoint.dtype == "bfloat16"
    assert checkpoint.buffer_seconds == 16.0
