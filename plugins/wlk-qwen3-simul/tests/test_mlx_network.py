"""Qwen3-ASR on MLX behind the seam: what torch computes from the same files."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")
pytest.importorskip("mlx.core", reason="needs wlk-qwen3-simul[mlx]")
pytest.importorskip("mlx_qwen3_asr", reason="needs wlk-qwen3-simul[mlx]")

import mlx.core as mx
from safetensors.torch import load_file, save_file
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

    there, here = (memory for _, memory in told)
    one = 2 * 2 * 2 * 16 * 4  # bytes of a position: keys and values, layers, heads, size, float32
    assert there.length == here.length
    assert here.nbytes == here.length * one
    assert there.nbytes == -(-there.length // 256) * 256 * one  # buffers grow by blocks


def test_what_is_forgotten_is_held_until_the_next_pass(networks):
    """Bytes are those that are in use, whatever of them still means something."""
    for network in networks:
        memory = network.open()
        heard = IncrementalEncoder(network).hear(AUDIO[:140_000], first_sample=0)
        span = (len(BEFORE), len(BEFORE) + heard.tokens)
        network.extend(memory, [BEFORE, *heard.windows, BEHIND], rows=1, audio=span)
        held = memory.nbytes
        memory.keep(5)

        assert 5 == memory.length
        assert 0 < held == memory.nbytes


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


@pytest.fixture
def spoilt(tmp_path, checkpoint):
    """Return what copies the tiny checkpoint with other weights and another config."""

    def make(weights, *, config=None):
        for file in checkpoint.iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes())
        state = load_file(checkpoint / "model.safetensors")
        weights(state)
        save_file(state, str(tmp_path / "model.safetensors"), metadata={"format": "pt"})
        if config is not None:
            told = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
            config(told["thinker_config"])
            (tmp_path / "config.json").write_text(json.dumps(told), encoding="utf-8")
        return tmp_path

    return make


def same(state):
    """Leave the weights as they are."""


def own_head(state):
    """Add a head that is not the embedding."""
    state["thinker.lm_head.weight"] = state["thinker.model.embed_tokens.weight"] + 1


def untie(thinker):
    """Say that the head is not the embedding."""
    thinker["text_config"]["tie_word_embeddings"] = False


def untie_above(thinker):
    """Say so where the text config says nothing."""
    del thinker["text_config"]["tie_word_embeddings"]
    thinker["tie_word_embeddings"] = False


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda state: state.popitem(), "Missing 1 parameters"),
        (lambda state: state.update(more=torch.zeros(3)), r"Received 1 parameters.*more"),
        (
            lambda state: state.update({"thinker.model.norm.weight": torch.zeros(3)}),
            r"Expected shape.*norm\.weight",
        ),
        (lambda state: state.clear() or state.update(more=torch.zeros(3)), "parameters"),
    ],
    ids=["a key too few", "a key too many", "another shape", "no key at all"],
)
def test_weights_that_do_not_fit_key_for_key_are_refused(spoilt, spoil, message):
    """Random weights would say something, too."""
    with pytest.raises(ModelNotFoundError, match=message) as caught:
        load_model(spoilt(spoil), dtype=mx.float32)
    assert "pull the model again" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("config", [untie, untie_above])
def test_a_head_of_its_own_that_is_missing_is_refused(spoilt, config):
    """Nothing but the embedding may stand in for it, and only where the config says so."""
    with pytest.raises(ModelNotFoundError, match=r"lm_head.*pull the model again"):
        load_model(spoilt(same, config=config), dtype=mx.float32)


def test_a_head_of_its_own_is_the_one_in_the_file(spoilt):
    """Where the config says that it is not the embedding."""
    model = load_model(spoilt(own_head, config=untie), dtype=mx.float32)
    embedding, head = (host(one.weight) for one in (model.model.embed_tokens, model.lm_head))

    assert head == pytest.approx(embedding + 1)


def test_a_head_that_is_the_embedding_may_be_in_the_file(spoilt):
    """Some write it twice."""

    def twice(state):
        state["thinker.lm_head.weight"] = state["thinker.model.embed_tokens.weight"].clone()

    model = load_model(spoilt(twice), dtype=mx.float32)

    assert host(model.model.embed_tokens.weight).tolist() == host(model.lm_head.weight).tolist()


def test_a_head_that_is_not_the_embedding_it_is_said_to_be_is_refused(spoilt):
    """Which of the two is meant cannot be told, and engines choose differently."""
    with pytest.raises(ModelNotFoundError, match=r"an lm_head of their own.*pull the model again"):
        load_model(spoilt(own_head), dtype=mx.float32)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden_size", "x"),
        ("hidden_size", -1),
        ("hidden_size", None),
        ("num_attention_heads", 0),
        ("num_hidden_layers", [2]),
        ("vocab_size", 1.5),
    ],
)
def test_a_config_that_makes_no_model_is_told_in_one_line(spoilt, name, value):
    """A word for a number is no defect of the loader."""
    directory = spoilt(same, config=lambda thinker: thinker["text_config"].update({name: value}))

    with pytest.raises(ModelNotFoundError, match="pull the model again") as caught:
        load_model(directory, dtype=mx.float32)
    assert "\n" not in str(caught.value)
