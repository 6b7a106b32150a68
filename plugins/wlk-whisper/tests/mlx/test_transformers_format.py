"""A checkpoint in transformers' format on MLX gives the numbers of transformers."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("mlx.core", reason="needs wlk-whisper[mlx]", exc_type=ImportError)
pytest.importorskip("torch", reason="needs wlk-whisper[torch]")
pytest.importorskip("transformers", reason="needs wlk-whisper[torch]")

import mlx.core as mx
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

from wlk_core import ModelNotFoundError
from wlk_core.frameworks.mlx import shared_stream
from wlk_whisper.mlx.checkpoint import load_model
from wlk_whisper.mlx.network import MlxNetwork

STREAM = shared_stream("cpu", install_hint="")
HEADS = ((0, 1), (1, 0))
TOKENS = np.array([[4, 10, 20, 30]])


def save_model(directory, **changes):
    """Write a small random Whisper in transformers' format and return it."""
    torch.manual_seed(1)
    sizes = {"d_model": 48, "encoder_ffn_dim": 192, "decoder_ffn_dim": 192, "vocab_size": 90}
    layers = {"encoder_layers": 3, "decoder_layers": 2, "max_source_positions": 40}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 4}
    ids = {"pad_token_id": 3, "bos_token_id": 3, "eos_token_id": 3, "decoder_start_token_id": 4}
    config = WhisperConfig(**(sizes | layers | heads | ids | changes))
    model = WhisperForConditionalGeneration(config).eval()
    model.set_attn_implementation("eager")  # the only one that returns attention
    model.save_pretrained(directory)
    return model


@pytest.mark.parametrize(
    "changes", [{}, {"num_mel_bins": 128}], ids=["80 mel bands", "128 mel bands"]
)
def test_logits_and_attention_are_those_of_transformers(tmp_path, changes):
    """Every weight has its parameter, and convolutions are transposed."""
    model = save_model(tmp_path, **changes)
    shape = (model.config.num_mel_bins, 80)
    features = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    with torch.inference_mode():
        expected = model(
            input_features=torch.from_numpy(features)[None],
            decoder_input_ids=torch.from_numpy(TOKENS),
            output_attentions=True,
        )
    loaded = load_model(tmp_path, dtype=mx.float32)
    network = MlxNetwork(loaded.whisper, alignment_heads=HEADS, stream=STREAM, dtype=mx.float32)
    decoder = network.new_decoder(network.encode(features))
    output = decoder.forward(TOKENS, logits_to_keep=range(4), output_attention=True)
    attention = [expected.cross_attentions[layer][0, head].numpy() for layer, head in HEADS]

    assert loaded.alignment_heads is None
    np.testing.assert_allclose(expected.logits.numpy(), output.logits, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.stack(attention), output.cross_attention[0], atol=1e-6)


def test_sharded_weights_are_one_model(tmp_path):
    """Weights in several files are combined."""
    whole, shards = tmp_path / "whole", tmp_path / "shards"
    save_model(whole).save_pretrained(shards, max_shard_size="100KB")
    models = [load_model(path, dtype=mx.float32).whisper for path in (whole, shards)]
    weights = [model.decoder.blocks[1].mlp2.weight for model in models]

    assert (shards / "model.safetensors.index.json").is_file()
    assert mx.array_equal(*weights)


@pytest.mark.parametrize(
    "changes",
    [
        {"activation_function": "relu"},
        {"scale_embedding": True},
        {"tie_word_embeddings": False},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_parts_that_mlx_whisper_does_not_compute_are_refused(tmp_path, changes):
    """The message names the entry of config.json."""
    save_model(tmp_path, **changes)

    with pytest.raises(ModelNotFoundError, match=f"{next(iter(changes))}=.*MLX runs"):
        load_model(tmp_path, dtype=mx.float32)


def test_layers_of_another_width_are_refused(tmp_path):
    """mlx-whisper's dense layers are four times as wide as the model."""
    save_model(tmp_path, decoder_ffn_dim=96)

    with pytest.raises(ModelNotFoundError, match=r"for parameter decoder\.blocks\.0"):
        load_model(tmp_path, dtype=mx.float32)
