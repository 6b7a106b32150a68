"""Batched passes on torch give the numbers of passes run alone, whatever their lengths."""

from __future__ import annotations

import gc
import weakref

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

pytest.importorskip("torch", reason="needs wlk-whisper[torch]")
pytest.importorskip("transformers", reason="needs wlk-whisper[torch]")

import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

from wlk_whisper.engine.network import DecoderPass, EncoderPass
from wlk_whisper.torch.network import TorchNetwork

HEADS = ((0, 0), (1, 1), (1, 0))
MELS, VOCABULARY = 8, 60


def new_network(dtype=torch.float32):
    """Return a small Whisper with random weights."""
    torch.manual_seed(3)
    config = WhisperConfig(
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        num_mel_bins=MELS,
        max_source_positions=20,
        max_target_positions=40,
        vocab_size=VOCABULARY,
        init_std=0.4,
        pad_token_id=3,
        bos_token_id=3,
        eos_token_id=3,
        decoder_start_token_id=4,
    )
    model = WhisperForConditionalGeneration(config).eval().requires_grad_(False).to(dtype)
    return TorchNetwork(model, alignment_heads=HEADS)


@pytest.fixture(scope="module")
def network():
    """Return the network, loaded once."""
    return new_network()


def windows(lengths, seed=0):
    """Return features of as many mel frames as *lengths* says."""
    random = np.random.default_rng(seed)
    return [random.normal(size=(MELS, length)).astype(np.float32) for length in lengths]


def encoder_passes(features, *, is_padded=False):
    """Return a pass of the encoder for each window."""
    return [EncoderPass(features=window, is_padded=is_padded) for window in features]


def assert_close(expected, output):
    """Compare two outputs of a decoder."""
    np.testing.assert_allclose(expected.logits, output.logits, rtol=1e-5, atol=2e-5)
    if expected.cross_attention is None:
        assert output.cross_attention is None
    else:
        np.testing.assert_allclose(
            expected.cross_attention, output.cross_attention, rtol=1e-4, atol=1e-6
        )


streams = st.lists(st.integers(1, 20).map(lambda half: 2 * half), min_size=1, max_size=5)


@given(streams, st.data())
@settings(max_examples=60)
def test_rows_that_come_go_and_branch_have_the_numbers_of_passes_alone(network, lengths, data):
    """Windows, texts and beams of any size, in any order, with and without attention."""
    batch = network.new_batch()
    features = windows(lengths)
    is_padded = data.draw(st.booleans())
    outputs = batch.encode(encoder_passes(features, is_padded=is_padded))
    together = [network.new_decoder(output) for output in outputs]
    alone = [
        network.new_decoder(network.encode(window, is_padded=is_padded)) for window in features
    ]
    rows = [1] * len(lengths)
    for _ in range(data.draw(st.integers(1, 5))):
        chosen = data.draw(
            st.lists(st.integers(0, len(lengths) - 1), unique=True, min_size=1), label="streams"
        )
        passes = []
        for stream in chosen:
            new = data.draw(st.integers(1, 4))
            random = np.random.default_rng(data.draw(st.integers(0, 99)))
            origins = random.integers(rows[stream], size=random.integers(1, 4)).tolist()
            together[stream].reorder_cache(origins)
            alone[stream].reorder_cache(origins)
            rows[stream] = len(origins)
            passes.append(
                DecoderPass(
                    decoder=together[stream],
                    tokens=random.integers(VOCABULARY, size=(rows[stream], new)),
                    logits_to_keep=(0, -1),
                    output_attention=bool(random.integers(2)),
                )
            )
        for stream, item, output in zip(chosen, passes, batch.forward(passes), strict=True):
            expected = alone[stream].forward(
                item.tokens,
                logits_to_keep=item.logits_to_keep,
                output_attention=item.output_attention,
            )

            assert_close(expected, output)
            assert output.rounding.margin > 0


def test_a_batch_is_free_when_its_decoders_are_gone(network):
    """No reference cycle keeps keys and values until the next garbage collection."""
    gc.disable()
    try:
        batch = network.new_batch()
        decoders = [
            network.new_decoder(output) for output in batch.encode(encoder_passes(windows([8, 6])))
        ]
        batch.forward(
            [DecoderPass(decoder=decoder, tokens=np.array([[4]])) for decoder in decoders]
        )
        alive = weakref.ref(batch)
        del batch, decoders

        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_has_no_common_passes(dtype):
    """Its rounding would leave few choices certain."""
    assert new_network(dtype).new_batch() is None
