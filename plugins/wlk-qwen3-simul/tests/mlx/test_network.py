"""The network on MLX computes what torch computes from the same files."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")
pytest.importorskip("mlx.core", reason="needs wlk-qwen3-simul[mlx]")
pytest.importorskip("mlx_qwen3_asr", reason="needs wlk-qwen3-simul[mlx]")

import mlx.core as mx
import torch

from wlk_conformance.testing import connected_digits
from wlk_core.frameworks.mlx import shared_stream
from wlk_qwen3_simul.engine.encoder import IncrementalEncoder
from wlk_qwen3_simul.mlx.checkpoint import load_model
from wlk_qwen3_simul.mlx.network import MlxNetwork
from wlk_qwen3_simul.torch.checkpoint import load_model as load_torch
from wlk_qwen3_simul.torch.network import TorchNetwork

HEADS = ((1, 2), (0, 3), (1, 0))
AUDIO = connected_digits(16, seed=1).audio
BEFORE, AFTER = [5, 6, 7], [8, 9, 10, 11]


@pytest.fixture(scope="module")
def networks(checkpoint):
    """Return the tiny checkpoint on torch and on MLX."""
    stream = shared_stream("cpu", install_hint="")
    with stream.acquire():
        model = load_model(checkpoint, dtype=mx.float32)
    ours = MlxNetwork(model, alignment_heads=HEADS, stream=stream, dtype=mx.float32)
    theirs = load_torch(checkpoint, device=torch.device("cpu"), dtype=torch.float32)
    return TorchNetwork(theirs, alignment_heads=HEADS), ours


def host(array):
    """Return an array of either framework as numpy's."""
    return array.numpy() if isinstance(array, torch.Tensor) else np.array(array)


@pytest.mark.parametrize("samples", [3000, 16_000, 100_000, 128_040, 140_000])
def test_embeddings_are_those_of_torch(networks, samples):
    """They agree for short seconds and for windows that close."""
    on_torch, on_mlx = (
        np.concatenate(
            [
                host(window.embeddings)
                for window in IncrementalEncoder(network)
                .encode(AUDIO[:samples], first_sample=0)
                .windows
            ]
        )
        for network in networks
    )

    assert on_mlx == pytest.approx(on_torch, abs=1e-5)


def test_output_is_that_of_torch(networks):
    """A fresh forward, one over a KV cache, and single steps give the same output."""
    runs = []
    for network in networks:
        encoded = IncrementalEncoder(network).encode(AUDIO[:140_000], first_sample=0)
        span = (len(BEFORE), len(BEFORE) + encoded.tokens)
        kv_cache = network.new_kv_cache()
        parts = [BEFORE, *encoded.windows, AFTER]
        outputs = [network.forward(kv_cache, parts, rows=3, audio=span)]
        kv_cache.truncate(len(BEFORE) + 104)
        outputs.append(network.forward(kv_cache, [*encoded.windows[1:], AFTER], rows=4, audio=span))
        outputs += [network.forward(kv_cache, [[token]], rows=1, audio=span) for token in range(5)]
        runs.append((outputs, kv_cache))
    for on_torch, on_mlx in zip(*(outputs for outputs, _ in runs), strict=True):
        assert on_torch.ids.tolist() == on_mlx.ids.tolist()
        assert on_mlx.logprobs == pytest.approx(on_torch.logprobs, abs=1e-4)
        assert on_mlx.attention == pytest.approx(on_torch.attention, abs=1e-5)
        assert on_mlx.audio_attention_mass == pytest.approx(on_torch.audio_attention_mass, abs=1e-5)

    torch_cache, mlx_cache = (kv_cache for _, kv_cache in runs)
    position = 2 * 2 * 2 * 16 * 4  # bytes: keys and values, layers, heads, size, float32
    assert torch_cache.length == mlx_cache.length
    assert mlx_cache.nbytes == mlx_cache.length * position
    assert torch_cache.nbytes == -(-torch_cache.length // 256) * 256 * position  # whole blocks
