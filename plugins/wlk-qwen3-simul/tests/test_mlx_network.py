"""Qwen3-ASR on MLX behind the seam: what torch computes from the same files."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")
pytest.importorskip("mlx.core", reason="needs wlk-qwen3-simul[mlx]")
pytest.importorskip("mlx_qwen3_asr", reason="needs wlk-qwen3-simul[mlx]")

import mlx.core as mx
import torch

from wlk_core import ModelNotFoundError
from wlk_core.testing import connected_digits
from wlk_qwen3_simul.audio.encoding import IncrementalEncoder
from wlk_qwen3_simul.mlx_checkpoint import load_model
from wlk_qwen3_simul.mlx_device import commands_of
from wlk_qwen3_simul.mlx_network import MlxNetwork
from wlk_qwen3_simul.torch_checkpoint import load_model as load_torch
from wlk_qwen3_simul.torch_network import TorchNetwork

HEADS = ((1, 2), (0, 3), (1, 0))
AUDIO = connected_digits(16, seed=1).audio
BEFORE, BEHIND = [5, 6, 7], [8, 9, 10, 11]


@pytest.fixture(scope="module")
def networks(checkpoint):
    """Return the tiny checkpoint on torch and on MLX."""
    commands = commands_of("cpu")
    with commands.turn():
        model = load_model(checkpoint, dtype=mx.float32)
    ours = MlxNetwork(model, alignment_heads=HEADS, commands=commands, dtype=mx.float32)
    theirs = load_torch(checkpoint, device=torch.device("cpu"), dtype=torch.float32)
    return TorchNetwork(theirs, alignment_heads=HEADS), ours


def host(array):
    """Return an array of either framework as numpy's."""
    return array.numpy() if isinstance(array, torch.Tensor) else np.array(array)


@pytest.mark.parametrize("samples", [3000, 16_000, 100_000, 128_040, 140_000])
def test_embeddings_are_those_of_torch(networks, samples):
    """Seconds that are short, windows that close."""
    there, here = (
        np.concatenate([host(one.embeddings) for one in heard.windows])
        for heard in [
            IncrementalEncoder(one).hear(AUDIO[:samples], first_sample=0) for one in networks
        ]
    )

    assert here == pytest.approx(there, abs=1e-5)


def test_rows_are_those_of_torch(networks):
    """Ids, probabilities and attention, of a fresh pass, of kept positions and of single steps."""
    told = []
    for network in networks:
        heard = IncrementalEncoder(network).hear(AUDIO[:140_000], first_sample=0)
        span = (len(BEFORE), len(BEFORE) + heard.tokens)
        memory = network.open()
        passes = [network.extend(memory, [BEFORE, *heard.windows, BEHIND], rows=3, audio=span)]
        memory.keep(len(BEFORE) + 104)
        passes.append(network.extend(memory, [*heard.windows[1:], BEHIND], rows=4, audio=span))
        passes += [network.extend(memory, [[number]], rows=1, audio=span) for number in range(5)]
        told.append((passes, memory))
    for there, here in zip(*(passes for passes, _ in told), strict=True):
        assert there.ids.tolist() == here.ids.tolist()
        assert here.log_probs == pytest.approx(there.log_probs, abs=1e-4)
        assert here.attention == pytest.approx(there.attention, abs=1e-5)
        assert here.heed == pytest.approx(there.heed, abs=1e-5)

    assert told[0][1].length == told[1][1].length
    assert told[0][1].nbytes == told[1][1].nbytes


def test_half_precision_is_half_precision(checkpoint):
    """What was asked for is what every weight is, whatever was stored."""
    commands = commands_of("cpu")
    with commands.turn():
        model = load_model(checkpoint, dtype=mx.float16)

    assert mx.float16 == model.model.embed_tokens.weight.dtype
    assert mx.float16 == model.audio_tower.conv2d1.weight.dtype


def test_the_layout_of_transformers_is_refused_with_what_helps(tiny, tmp_path):
    """MLX reads the original one."""
    other = tiny.write_checkpoint(tmp_path / "hf", layout="hf")

    with pytest.raises(
        ModelNotFoundError, match=r"original repository.*or the backend qwen3-simul"
    ):
        load_model(other, dtype=mx.float32)


def test_weights_that_do_not_fit_are_refused(tmp_path, checkpoint):
    """Random weights would say something, too."""
    from safetensors.torch import load_file, save_file  # noqa: PLC0415 -- only here

    for file in checkpoint.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    state = load_file(checkpoint / "model.safetensors")
    state.popitem()
    save_file(state, str(tmp_path / "model.safetensors"))

    with pytest.raises(ModelNotFoundError, match=r"cannot be loaded.*pull the model again"):
        load_model(tmp_path, dtype=mx.float32)
