"""The network on torch computes exactly what transformers' own classes compute."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")

import torch
import transformers

from wlk_conformance.testing import connected_digits
from wlk_qwen3_simul.engine.encoder import IncrementalEncoder
from wlk_qwen3_simul.engine.frames import LEAD_SAMPLES
from wlk_qwen3_simul.torch.checkpoint import load_model
from wlk_qwen3_simul.torch.network import TorchNetwork

HEADS = ((1, 2), (0, 3), (1, 0))
CPU = torch.device("cpu")
AUDIO = connected_digits(16, seed=1).audio
BEFORE, AFTER = [5, 6, 7], [8, 9, 10, 11]


@pytest.fixture(scope="module")
def model(checkpoint):
    """Return the tiny checkpoint as transformers' class."""
    return load_model(checkpoint, device=CPU, dtype=torch.float32)


@pytest.fixture(scope="module")
def network(model):
    """Return the same model as a network."""
    return TorchNetwork(model, alignment_heads=HEADS)


def reference(model, samples):
    """Return transformers' embeddings of the first samples after the leading zeros."""
    features = transformers.Qwen3ASRFeatureExtractor()(
        np.concatenate([np.zeros(LEAD_SAMPLES, np.float32), AUDIO[:samples]]),
        sampling_rate=16_000,
        padding=True,
        return_attention_mask=True,
        return_tensors="pt",
    )
    with torch.inference_mode():
        return model.get_audio_features(
            features["input_features"], features["attention_mask"], return_dict=True
        ).pooler_output


def test_the_incremental_encoder_is_that_of_the_whole_clip(model, network):
    """The embeddings agree at every step, over windows that close and seconds that are short."""
    encoder = IncrementalEncoder(network)
    for samples in (3000, 8000, 16_000, 20_080, 100_000, 127_999, 128_000, 128_039, 140_000):
        encoded = encoder.encode(AUDIO[:samples], first_sample=0)
        ours = torch.cat([window.embeddings for window in encoded.windows])
        theirs = reference(model, samples)

        assert ours.numpy() == pytest.approx(theirs.numpy()[: len(ours)], abs=1e-5)
        # Under half a second, transformers may or may not encode the zeros after the audio, too.
        assert len(theirs) == len(ours)


def embed_all(model, encoded):
    """Return the embeddings of the whole sequence: before, audio, after."""
    embed = model.get_input_embeddings()
    audio = [window.embeddings for window in encoded.windows]
    return torch.cat([embed(torch.tensor(BEFORE)), *audio, embed(torch.tensor(AFTER))])[None]


def test_output_is_that_of_eager_attention(checkpoint, model, network):
    """Logprobs, attention to the audio and its mass do not depend on the attention kernel."""
    encoded = IncrementalEncoder(network).encode(AUDIO[:140_000], first_sample=0)
    span = (len(BEFORE), len(BEFORE) + encoded.tokens)
    output = network.forward(
        network.new_kv_cache(), [BEFORE, *encoded.windows, AFTER], rows=2, audio=span
    )
    eager = load_model(checkpoint, device=CPU, dtype=torch.float32)
    eager.set_attn_implementation("eager")
    with torch.inference_mode():
        theirs = eager(inputs_embeds=embed_all(model, encoded), output_attentions=True)
    logprobs = theirs.logits[0, -2:].log_softmax(dim=-1).max(dim=-1)
    weights = [theirs.attentions[layer][0, head, -2:, slice(*span)] for layer, head in HEADS]
    shares = [head / head.sum(dim=-1, keepdim=True) for head in weights]
    attention = torch.stack(shares).mean(dim=0)

    assert logprobs.indices.tolist() == output.ids.tolist()
    assert output.logprobs == pytest.approx(logprobs.values.numpy(), abs=1e-4)
    assert output.attention == pytest.approx(attention.numpy(), abs=1e-5)
    mass = torch.stack(weights).sum(dim=-1).mean(dim=0)
    assert output.audio_attention_mass == pytest.approx(mass.numpy(), abs=1e-5)


def test_cached_positions_are_those_of_a_fresh_forward(network):
    """Several positions after cached ones attend to all before them, and to none after."""
    encoded = IncrementalEncoder(network).encode(AUDIO[:140_000], first_sample=0)
    span = (len(BEFORE), len(BEFORE) + encoded.tokens)
    fresh = network.forward(
        network.new_kv_cache(), [BEFORE, *encoded.windows, AFTER], rows=3, audio=span
    )
    kv_cache = network.new_kv_cache()
    network.forward(kv_cache, [BEFORE, *encoded.windows, [40] * 300], rows=1, audio=span)
    kv_cache.truncate(len(BEFORE) + 104)
    cached = network.forward(kv_cache, [*encoded.windows[1:], AFTER], rows=3, audio=span)

    assert fresh.ids.tolist() == cached.ids.tolist()
    assert cached.logprobs == pytest.approx(fresh.logprobs, abs=1e-5)
    assert cached.attention == pytest.approx(fresh.attention, abs=1e-6)
