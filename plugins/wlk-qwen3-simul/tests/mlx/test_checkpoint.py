"""A directory of Qwen3-ASR is loaded on MLX in the original layout, complete or not at all."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")
pytest.importorskip("mlx.core", reason="needs wlk-qwen3-simul[mlx]")
pytest.importorskip("mlx_qwen3_asr", reason="needs wlk-qwen3-simul[mlx]")

from mlx import nn
import mlx.core as mx
from mlx.utils import tree_flatten
import torch

from wlk_core import ModelNotFoundError, load_backend
from wlk_core.frameworks.mlx import shared_stream
from wlk_qwen3_simul.mlx import checkpoint as module
from wlk_qwen3_simul.mlx.checkpoint import load_model


def test_half_precision_is_half_precision(checkpoint):
    """Every weight has the requested number format, whatever the file holds."""
    with shared_stream("cpu", install_hint="").acquire():
        model = load_model(checkpoint, dtype=mx.float16)

    assert mx.float16 == model.model.embed_tokens.weight.dtype
    assert mx.float16 == model.audio_tower.conv2d1.weight.dtype


def test_the_layout_of_transformers_is_refused_with_what_helps(tiny, tmp_path):
    """MLX reads the original layout only."""
    other = tiny.write_checkpoint(tmp_path / "hf", layout="hf")

    with pytest.raises(
        ModelNotFoundError, match=r"original repository.*or the backend qwen3-simul"
    ):
        load_model(other, dtype=mx.float32)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (lambda state: state.popitem(), "Missing 1 parameters"),
        (lambda state: state.update(more=torch.zeros(3)), r"Received 1 parameters.*more"),
        (
            lambda state: state.update({"thinker.model.norm.weight": torch.zeros(3)}),
            r"Expected shape.*norm\.weight",
        ),
        (lambda state: state.clear() or state.update(more=torch.zeros(3)), "the weights have 0"),
    ],
    ids=["a key too few", "a key too many", "another shape", "no key at all"],
)
def test_weights_that_do_not_fit_key_for_key_are_refused(altered, weights, message):
    """A model with random weights would emit text, too."""
    with pytest.raises(ModelNotFoundError, match=message) as caught:
        load_model(altered(weights=weights), dtype=mx.float32)
    assert "pull the model again" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.fixture
def quantized(checkpoint, tmp_path):
    """Return a function that writes the tiny checkpoint as mlx-community does, quantised."""

    def make(bits):
        for file in checkpoint.iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes())
        model = load_model(checkpoint, dtype=mx.float32)
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


def test_weights_that_mlx_has_quantised_are_loaded_here_and_refused_on_torch(quantized, caplog):
    """On a CPU a warning says how slow they are."""
    directory = quantized(8)
    with load_backend("qwen3-mlx-simul", str(directory), device="cpu") as backend:
        backend.warmup()

    assert "slowly on a CPU" in caplog.text
    with pytest.raises(ModelNotFoundError, match=r"quantized.*or the backend qwen3-mlx-simul"):
        load_backend("qwen3-simul", str(directory))


def test_weights_in_a_number_of_bits_that_the_library_lacks_are_refused(quantized):
    """The message names the numbers that it reads."""
    with pytest.raises(ModelNotFoundError, match="in 6 bits, and mlx-qwen3-asr reads 2, 4 and 8"):
        load_model(quantized(6), dtype=mx.float32)


def test_packed_weights_need_the_memory_of_their_words(quantized, monkeypatch):
    """A word of 32 bits holds several weights; floats are those of the arithmetic."""
    directory, needed = quantized(4), []
    monkeypatch.setattr(module, "require_memory", lambda _, **sizes: needed.append(sizes["needed"]))
    loaded = load_model(directory, dtype=mx.float16)
    arrays = dict(tree_flatten(loaded.parameters()))

    assert [sum(each.nbytes for name, each in arrays.items() if "lm_head" not in name)] == needed


def own_head(state):
    """Add an lm_head that differs from the embedding."""
    state["thinker.lm_head.weight"] = state["thinker.model.embed_tokens.weight"] + 1


def same_head(state):
    """Add the embedding as the lm_head."""
    state["thinker.lm_head.weight"] = state["thinker.model.embed_tokens.weight"].clone()


def test_a_missing_head_of_its_own_is_refused(altered, untied):
    """The embedding replaces the lm_head only where the config ties them."""
    with pytest.raises(ModelNotFoundError, match=r"lm_head.*pull the model again"):
        load_model(altered(config=untied), dtype=mx.float32)


def test_a_head_of_its_own_is_loaded(altered):
    """An lm_head that the text config unties has the weights in the file."""
    directory = altered(
        weights=own_head,
        config=lambda thinker: thinker["text_config"].update(tie_word_embeddings=False),
    )
    model = load_model(directory, dtype=mx.float32)
    embedding, head = (
        np.array(layer.weight) for layer in (model.model.embed_tokens, model.lm_head)
    )

    assert head == pytest.approx(embedding + 1)


def test_a_tied_head_may_be_in_the_file(altered):
    """Some programs write the embedding twice."""
    model = load_model(altered(weights=same_head), dtype=mx.float32)
    embedding, head = (
        np.array(layer.weight) for layer in (model.model.embed_tokens, model.lm_head)
    )

    assert embedding.tolist() == head.tolist()


def test_a_tied_head_with_weights_of_its_own_is_refused(altered):
    """The directory contradicts itself, and frameworks choose differently."""
    with pytest.raises(ModelNotFoundError, match=r"an lm_head of their own.*pull the model again"):
        load_model(altered(weights=own_head), dtype=mx.float32)
