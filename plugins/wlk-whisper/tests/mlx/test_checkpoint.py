"""Loading in mlx-whisper's format: every parameter has its weight, or the message says why not."""

from __future__ import annotations

import json

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core", reason="needs wlk-whisper[mlx]", exc_type=ImportError)

from mlx import nn  # noqa: E402 -- only with MLX
from mlx.utils import tree_flatten  # noqa: E402 -- only with MLX
from mlx_whisper.whisper import ModelDimensions, Whisper  # noqa: E402 -- only with MLX

from wlk_core import BackendUnavailable, ModelNotFoundError  # noqa: E402 -- after the import that may skip
from wlk_frameworks.mlx import shared_stream  # noqa: E402 -- needs MLX
from wlk_whisper.mlx.checkpoint import load_model  # noqa: E402 -- needs MLX
from wlk_whisper.mlx.network import MlxNetwork  # noqa: E402 -- needs MLX
from wlk_whisper_digits import checkpoint_directory  # noqa: E402 -- as above

DIGITS = checkpoint_directory()
STREAM = shared_stream("cpu", install_hint="")
SMALL = {
    "n_mels": 80, "n_audio_ctx": 60, "n_audio_state": 64, "n_audio_head": 2, "n_audio_layer": 1,
    "n_vocab": 96, "n_text_ctx": 32, "n_text_state": 64, "n_text_head": 2, "n_text_layer": 2,
}  # fmt: skip


def parameters(whisper):
    """Return the parameters by name."""
    return dict(tree_flatten(whisper.parameters()))


def small_model():
    """Return a model of a few thousand parameters, drawn from a fixed seed."""
    mx.random.seed(3)
    whisper = Whisper(ModelDimensions(**SMALL), mx.float32)
    mx.eval(whisper.parameters())
    return whisper


def save(
    directory, whisper=None, *, config=SMALL, file="weights.safetensors", without=(), **weights
):
    """Write a checkpoint as mlx-whisper's converter does, less *without*, with *weights*."""
    saved = parameters(whisper or small_model()) | weights
    saved = {key.replace("__", "."): value for key, value in saved.items()}
    for key in without:
        del saved[key]
    if file.endswith("npz"):
        np.savez(directory / file, **{key: np.array(value) for key, value in saved.items()})
    else:
        mx.save_safetensors(str(directory / "weights.safetensors"), saved)
        (directory / "weights.safetensors").rename(directory / file)
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return directory


@pytest.mark.parametrize("file", ["weights.safetensors", "weights.npz"])
def test_both_kinds_of_weights_are_read(tmp_path, file):
    """mlx-community publishes both."""
    loaded = load_model(save(tmp_path, file=file), dtype=mx.float32)[0]

    for name, weight in parameters(small_model()).items():
        assert mx.array_equal(weight, parameters(loaded)[name]).item(), name


def test_heads_among_the_weights_are_returned(tmp_path):
    """Converters save them among the weights, some as floating point."""
    heads = mx.array([[0, 1], [1, 0]])
    exact = load_model(save(tmp_path, alignment_heads=heads), dtype=mx.float32)
    coarse = load_model(save(tmp_path, alignment_heads=heads.astype(mx.float16)), dtype=mx.float32)

    assert exact[1] == ((0, 1), (1, 0))
    assert coarse[1] == ((0, 1), (1, 0))


def test_packed_weights_count_with_all_their_bytes(tmp_path, monkeypatch):
    """Eight weights of four bits take four bytes, whatever the dtype."""
    whisper = small_model()
    nn.quantize(whisper, group_size=64, bits=4)
    save(tmp_path, whisper, config=SMALL | {"quantization": {"group_size": 64, "bits": 4}})
    weights = parameters(whisper).values()
    packed = sum(weight.nbytes for weight in weights if weight.dtype == mx.uint32)
    needed = packed + sum(2 * weight.size for weight in weights if weight.dtype == mx.float32)
    monkeypatch.setattr("wlk_whisper.mlx.checkpoint.available_memory", lambda _: needed - 1)

    assert packed > 0
    with pytest.raises(BackendUnavailable, match="of memory"):
        load_model(tmp_path, dtype=mx.float16)


@pytest.mark.parametrize("bits", [4, 8])
def test_a_quantized_model_stays_close(tmp_path, bits):
    """Its weights stay quantized; everything else runs in the requested type."""
    exact, whisper = load_model(save(tmp_path), dtype=mx.float32)[0], small_model()
    nn.quantize(whisper, group_size=64, bits=bits)
    save(tmp_path, whisper, config=SMALL | {"quantization": {"group_size": 64, "bits": bits}})
    coarse = load_model(tmp_path, dtype=mx.float32)[0]
    features = np.random.default_rng(1).normal(size=(80, 100)).astype(np.float32)
    outputs = []
    for model in (exact, coarse):
        heads = {"alignment_heads": ((1, 0),)}
        network = MlxNetwork(model, **heads, stream=STREAM, dtype=mx.float32)
        decoder = network.new_decoder(network.encode(features))
        outputs.append(decoder.forward(np.array([[5, 6, 7]]), output_attention=True))
    full, quantized = outputs

    assert parameters(coarse)["decoder.token_embedding.weight"].dtype == mx.uint32
    np.testing.assert_allclose(quantized.cross_attention, full.cross_attention, rtol=0, atol=0.05)
    correlation = np.corrcoef(quantized.logits.ravel(), full.logits.ravel())[0, 1]
    assert correlation > (0.9 if bits == 4 else 0.99)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"decoder__lm_head__weight": mx.zeros((2, 2))},
            r"not in model: decoder\.lm_head\.weight",
        ),
        ({"decoder__ln__weight": mx.zeros(65)}, r"shape \(64,\) but received shape \(65,\)"),
        ({"file": "model.bin"}, r"has no weights\.safetensors or weights\.npz"),
        ({"config": SMALL | {"n_text_layer": 3}}, "has n_text_layer=3, but the weights have 2;"),
        ({"config": [1]}, r"config\.json is invalid: Expected `object`"),
        (
            {"without": ["decoder.blocks.1.mlp_ln.bias"]},
            r"Missing 1 parameters: decoder\.blocks\.1\.mlp_ln",
        ),
        ({"config": SMALL | {"n_audio_ctx": 10**6}}, r"<= 30000 - at `\$\.n_audio_ctx`"),
        ({"config": SMALL | {"n_vocab": 10**6}}, "has n_vocab=1000000, but the weights have 96"),
        ({"config": SMALL | {"n_audio_head": 3}}, "divides 64 audio channels among 3 heads"),
        ({"config": SMALL | {"quantization": 4}}, "quantized in an unknown way"),
        ({"alignment_heads": mx.array([0, 1])}, r"should be pairs, got shape \(2,\)"),
    ],
)
def test_weights_that_do_not_fit_are_named(tmp_path, changes, message):
    """No parameter stays random, no weight is dropped, and the message stays on one line."""
    save(tmp_path, **changes)
    with pytest.raises(ModelNotFoundError, match=message) as caught:
        load_model(tmp_path, dtype=mx.float32)

    assert str(tmp_path) in str(caught.value)
    assert "wlk-core pull SIZE --backend mlx-whisper" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("quantization", "message"),
    [
        ({"group_size": 64, "bits": 8}, "but received shape"),
        ({"group_size": 64, "bits": "four"}, "quantized in an unknown way"),
        ({"bitts": 4}, "quantized in an unknown way"),
    ],
)
def test_weights_that_are_quantized_otherwise_are_refused(tmp_path, quantization, message):
    """Packed weights are never unpacked with wrong sizes."""
    whisper = small_model()
    nn.quantize(whisper, group_size=64, bits=4)
    save(tmp_path, whisper, config=SMALL | {"quantization": quantization})

    with pytest.raises(ModelNotFoundError, match=message):
        load_model(tmp_path, dtype=mx.float32)


@pytest.mark.parametrize("name", ["weights.safetensors", "weights.npz", "config.json"])
def test_a_damaged_file_is_named(tmp_path, name):
    """A download that was cut off is never loaded as a model."""
    save(tmp_path)
    (tmp_path / "weights.safetensors").unlink()
    (tmp_path / name).write_bytes(b"\x10\x00\x00\x00 broken")

    with pytest.raises(ModelNotFoundError, match=rf"{name} (cannot be read|is damaged)"):
        load_model(tmp_path, dtype=mx.float32)


@pytest.mark.parametrize(
    ("key", "value"),
    [("activation_function", "relu"), ("scale_embedding", True), ("tie_word_embeddings", False)],
)
def test_parts_that_mlx_whisper_does_not_compute_are_refused(tmp_path, key, value):
    """The message names the entry of the config.json of transformers."""
    config = json.loads((DIGITS / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config | {key: value}), encoding="utf-8")

    with pytest.raises(ModelNotFoundError, match=f"{key}=.*MLX runs"):
        load_model(tmp_path, dtype=mx.float32)
