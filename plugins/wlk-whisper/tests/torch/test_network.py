"""Whisper's layers on torch: the numbers of transformers' own forward pass, in any pieces."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs wlk-whisper[torch]")
pytest.importorskip("transformers", reason="needs wlk-whisper[torch]")

import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

from wlk_whisper.torch.checkpoint import load_whisper
from wlk_whisper.torch.network import TorchNetwork
from wlk_whisper_digits import checkpoint_directory

DIGITS = checkpoint_directory()
HEADS = ((1, 0), (2, 3), (3, 2))
TEXT = (50258, 50259, 50359, 50363, 1732, 4018, 732, 1045, 3124)


@pytest.fixture(scope="module")
def whisper():
    """Return the bundled checkpoint as transformers' modules."""
    return load_whisper(DIGITS, device=torch.device("cpu"), dtype=torch.float32)


@pytest.fixture(scope="module")
def network(whisper):
    """Return the network of the bundled checkpoint."""
    return TorchNetwork(whisper, alignment_heads=HEADS)


def features(frames, seed=0):
    """Return noise in the range of log-mel features."""
    return np.random.default_rng(seed).uniform(-1, 1, size=(80, frames)).astype(np.float32)


def forward_whole(network, encoder_output, tokens):
    """Return one forward pass over all *tokens*, with all logits and attention."""
    return network.new_decoder(encoder_output).forward(
        np.array([tokens]), logits_to_keep=range(len(tokens)), output_attention=True
    )


def test_a_full_window_gives_the_numbers_of_transformers(whisper, network):
    """Logits and attention equal those of the model's own forward pass."""
    inputs = features(3000)
    whisper.set_attn_implementation("eager")  # the only one that returns attention
    with torch.inference_mode():
        expected = whisper(
            input_features=torch.from_numpy(inputs)[None],
            decoder_input_ids=torch.tensor([TEXT]),
            output_attentions=True,
        )
    output = forward_whole(network, network.encode(inputs), TEXT)
    attention = [expected.cross_attentions[layer][0, head].numpy() for layer, head in HEADS]

    np.testing.assert_allclose(expected.logits.numpy(), output.logits, rtol=1e-5, atol=5e-5)
    np.testing.assert_allclose(np.stack(attention), output.cross_attention[0], atol=1e-5)


@pytest.mark.parametrize(
    "shape",
    [
        {"num_mel_bins": 128, "encoder_layers": 3, "decoder_layers": 1},
        {"encoder_attention_heads": 2, "decoder_attention_heads": 8},
        {"activation_function": "relu", "tie_word_embeddings": False},
    ],
    ids=["distilled from large-v3", "heads of two sizes", "untied"],
)
def test_any_shape_of_whisper_gives_the_numbers_of_transformers(tmp_path, shape):
    """Layers, heads, activation and tying follow the configuration."""
    torch.manual_seed(1)
    small = {"d_model": 48, "encoder_ffn_dim": 48, "decoder_ffn_dim": 40, "vocab_size": 90}
    ids = {"pad_token_id": 3, "bos_token_id": 3, "eos_token_id": 3, "decoder_start_token_id": 4}
    config = WhisperConfig(**small, **ids, max_source_positions=40, **shape)
    model = WhisperForConditionalGeneration(config).eval()
    model.set_attn_implementation("eager")
    model.save_pretrained(tmp_path)
    inputs = np.random.default_rng(0).normal(size=(config.num_mel_bins, 80)).astype(np.float32)
    tokens = np.array([[4, 10, 20, 30], [4, 50, 60, 70]])
    with torch.inference_mode():
        expected = model(
            input_features=torch.from_numpy(inputs)[None].expand(2, -1, -1),
            decoder_input_ids=torch.from_numpy(tokens),
            output_attentions=True,
        )
    loaded = load_whisper(tmp_path, device=torch.device("cpu"), dtype=torch.float32)
    network = TorchNetwork(loaded, alignment_heads=((0, 1), (0, 0)))
    decoder = network.new_decoder(network.encode(inputs))
    decoder.reorder_cache([0, 0])
    output = decoder.forward(tokens, logits_to_keep=range(4), output_attention=True)

    assert (config.num_mel_bins, 90, 448) == (network.n_mels, network.n_vocab, network.n_text_ctx)
    np.testing.assert_allclose(expected.logits.numpy(), output.logits, rtol=1e-5, atol=1e-5)
    attention = expected.cross_attentions[0].numpy()[:, [1, 0]]
    np.testing.assert_allclose(attention, output.cross_attention, atol=1e-6)


def test_a_padded_window_goes_on_with_the_encoder_output_of_silence(network):
    """The decoder attends to the frames of the audio, then to those of 30 s of silence."""
    audio, padded = (network.encode(features(200), is_padded=padded) for padded in (False, True))

    assert 1500 == padded.frames
    for own, silent, joined in zip(
        audio.memory.cross_kv,
        network.encoder.silence.cross_kv,
        padded.memory.cross_kv,
        strict=True,
    ):
        for part in range(2):
            assert torch.equal(own[part], joined[part][:, :, :100])
            assert torch.equal(silent[part][:, :, 100:], joined[part][:, :, 100:])


@pytest.mark.parametrize("pieces", [(1,) * 9, (4, 1, 1, 3), (8, 1)], ids=str)
def test_a_text_in_pieces_gives_the_numbers_of_one_pass(network, pieces):
    """The KV cache loses nothing: logits and attention equal a full recomputation."""
    encoder_output = network.encode(features(400))
    whole = forward_whole(network, encoder_output, TEXT)
    decoder, logits, attention, first = network.new_decoder(encoder_output), [], [], 0
    for length in pieces:
        piece = np.array([TEXT[first : first + length]])
        output = decoder.forward(piece, logits_to_keep=range(length), output_attention=True)
        logits.append(output.logits)
        attention.append(output.cross_attention)
        first += length

    np.testing.assert_allclose(whole.logits, np.concatenate(logits, axis=1), rtol=1e-5, atol=5e-5)
    np.testing.assert_allclose(whole.cross_attention, np.concatenate(attention, axis=2), atol=1e-5)


def test_rows_continue_from_the_rows_of_reorder_cache(network):
    """Reordered, repeated and dropped rows equal texts decoded on their own."""
    encoder_output = network.encode(features(400))
    decoder = network.new_decoder(encoder_output)
    decoder.forward(np.array([TEXT[:4]]))
    decoder.reorder_cache([0, 0, 0])
    decoder.forward(np.array([[1732], [4018], [732]]))
    decoder.reorder_cache([2, 0])
    logits = decoder.forward(np.array([[1045], [3124]])).logits[:, 0]
    alone = [
        network.new_decoder(encoder_output).forward(np.array([[*TEXT[:4], *text]])).logits[0, 0]
        for text in ((732, 1045), (1732, 3124))
    ]

    np.testing.assert_allclose(np.stack(alone), logits, rtol=1e-5, atol=5e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_stays_close(whisper, network, dtype):
    """Other arithmetic gives the same logits within its precision, still as float32."""
    half = load_whisper(DIGITS, device=torch.device("cpu"), dtype=getattr(torch, dtype))
    coarse = TorchNetwork(half, alignment_heads=HEADS)
    exact = forward_whole(network, network.encode(features(300)), TEXT)
    output = forward_whole(coarse, coarse.encode(features(300)), TEXT)

    assert getattr(torch, dtype) == coarse.dtype
    assert np.float32 == output.logits.dtype == output.cross_attention.dtype
    assert np.abs(output.logits - exact.logits).max() < 0.05 * np.abs(exact.logits).max()
