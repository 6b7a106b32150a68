"""The networks on torch and on MLX compute what transformers' own classes compute."""

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
AUDIO = connected_digits(16, seed=1).audio
BEFORE, AFTER = [5, 6, 7], [8, 9, 10, 11]


@pytest.fixture(scope="module")
def model(checkpoint):
    """Return the tiny checkpoint as transformers' class."""
    return load_model(checkpoint, device=torch.device("cpu"), dtype=torch.float32)


@pytest.fixture(scope="module", params=["torch", "mlx"])
def network(request, checkpoint, model):
    """Return the same model as a network of each framework."""
    if request.param == "torch":
        return TorchNetwork(model, alignment_heads=HEADS)
    mx = pytest.importorskip("mlx.core", reason="needs wlk-qwen3-simul[mlx]")
    pytest.importorskip("mlx_qwen3_asr", reason="needs wlk-qwen3-simul[mlx]")
    from wlk_frameworks.mlx import shared_stream  # noqa: PLC0415 -- imports MLX
    from wlk_qwen3_simul.mlx.checkpoint import load_model as load_mlx  # noqa: PLC0415 -- imports MLX
    from wlk_qwen3_simul.mlx.network import MlxNetwork  # noqa: PLC0415 -- imports MLX

    stream = shared_stream("cpu", install_hint="")
    with stream.acquire():
        loaded = load_mlx(checkpoint, dtype=mx.float32)
    return MlxNetwork(loaded, alignment_heads=HEADS, stream=stream, dtype=mx.float32)


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


def embeddings(encoded):
    """Return the embeddings of all windows in one array."""
    arrays = [window.embeddings for window in encoded.windows]
    return np.concatenate([a.numpy() if torch.is_tensor(a) else np.array(a) for a in arrays])


def test_the_incremental_encoder_is_that_of_the_whole_clip(model, network):
    """The embeddings agree at every step, while windows close and seconds are incomplete."""
    encoder = IncrementalEncoder(network)
    for samples in (3000, 8000, 16_000, 20_080, 100_000, 127_999, 128_000, 128_039, 140_000):
        ours = embeddings(encoder.encode(AUDIO[:samples], first_sample=0))
        theirs = reference(model, samples)

        assert ours == pytest.approx(theirs.numpy()[: len(ours)], abs=1e-5)
        # Below half a second, transformers may also encode the zeros after the audio.
        assert len(theirs) == len(ours)


def test_output_is_that_of_eager_attention(checkpoint, network):
    """Logprobs, attention and its mass on the audio do not depend on the attention kernel."""
    encoded = IncrementalEncoder(network).encode(AUDIO[:140_000], first_sample=0)
    span = (len(BEFORE), len(BEFORE) + encoded.tokens)
    output = network.forward(
        network.new_kv_cache(), [BEFORE, *encoded.windows, AFTER], rows=2, audio=span
    )
    eager = load_model(checkpoint, device=torch.device("cpu"), dtype=torch.float32)
    eager.set_attn_implementation("eager")
    embed = eager.get_input_embeddings()
    with torch.inference_mode():
        parts = [embed(torch.tensor(ids)) for ids in (BEFORE, AFTER)]
        whole = torch.cat([parts[0], torch.from_numpy(embeddings(encoded)), parts[1]])
        theirs = eager(inputs_embeds=whole[None], output_attentions=True)
    logprobs = theirs.logits[0, -2:].log_softmax(dim=-1).max(dim=-1)
    weights = [theirs.attentions[layer][0, head, -2:, slice(*span)] for layer, head in HEADS]
    shares = [head / head.sum(dim=-1, keepdim=True) for head in weights]

    assert output.ids.tolist() == logprobs.indices.tolist()
    assert output.logprobs == pytest.approx(logprobs.values.numpy(), abs=1e-4)
    assert output.attention == pytest.approx(torch.stack(shares).mean(dim=0).numpy(), abs=1e-5)
    mass = torch.stack(weights).sum(dim=-1).mean(dim=0)
    assert output.audio_attention_mass == pytest.approx(mass.numpy(), abs=1e-5)


def test_the_likeliest_of_some_ids_is_that_of_the_whole_vocabulary(network):
    """Its logprob is that among all ids, so one id at a time finds the same."""
    encoded = IncrementalEncoder(network).encode(AUDIO[:64_000], first_sample=0)
    span = (len(BEFORE), len(BEFORE) + encoded.tokens)
    parts = [BEFORE, *encoded.windows, AFTER]

    def output(among):
        return network.forward(network.new_kv_cache(), parts, rows=2, audio=span, among=among)

    among = [5, 40, 200, 7]
    alone = np.array([output([token]).logprobs for token in among])
    found = output(among)

    assert found.ids.tolist() == [among[place] for place in alone.argmax(axis=0)]
    assert found.logprobs == pytest.approx(alone.max(axis=0), abs=1e-4)
    assert output(list(range(network.vocabulary_size))).ids.tolist() == output(()).ids.tolist()


def test_cached_positions_are_those_of_a_fresh_forward(network):
    """Positions that follow cached ones attend to all earlier positions, and to no later ones."""
    windows = IncrementalEncoder(network).encode(AUDIO[:140_000], first_sample=0)
    span = (len(BEFORE), len(BEFORE) + windows.tokens)
    parts = [BEFORE, *windows.windows, AFTER]
    fresh = network.forward(network.new_kv_cache(), parts, rows=3, audio=span)
    kv_cache = network.new_kv_cache()
    network.forward(kv_cache, [*parts[:-1], [40] * 300], rows=1, audio=span)
    kv_cache.truncate(len(BEFORE) + 104)
    outputs = [
        network.forward(kv_cache, [*parts[2:-1], AFTER[:-1]], rows=2, audio=span),
        network.forward(kv_cache, [AFTER[-1:]], rows=1, audio=span),
    ]

    assert fresh.ids.tolist() == [token for output in outputs for token in output.ids]
    for name in ("logprobs", "attention", "audio_attention_mass"):
        cached = np.concatenate([getattr(output, name) for output in outputs])
        assert cached == pytest.approx(getattr(fresh, name), abs=1e-5)
