"""A tiny checkpoint with random weights, and a network small enough to be checked by hand."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from wlk_qwen3_simul.engine.network import DecoderOutput, EncodedWindow
from wlk_qwen3_simul.engine.vocabulary import Vocabulary


@pytest.fixture(scope="session")
def tiny():
    """Return the module that writes tiny checkpoints; it lies beside the tests, in no package."""
    path = Path(__file__).parent / "tiny.py"
    spec = importlib.util.spec_from_file_location("wlk_qwen3_simul_tiny", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def vocabulary(tiny, tmp_path_factory):
    """Return the vocabulary of the tiny checkpoint."""
    directory = tmp_path_factory.mktemp("tokenizer")
    tiny.write_tokenizer(directory)
    return Vocabulary.read(directory)


@pytest.fixture(scope="session")
def checkpoint(tiny, tmp_path_factory):
    """Return the directory of a tiny checkpoint in the original layout."""
    pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
    pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")
    return tiny.write_checkpoint(tmp_path_factory.mktemp("tiny") / "model")


class ToyKVCache:
    """The state after every position."""

    def __init__(self, width):
        self.states = np.zeros((0, width))

    @property
    def length(self):
        """Count the positions."""
        return len(self.states)

    @property
    def nbytes(self):
        """Return the bytes of the states."""
        return self.states.nbytes

    def truncate(self, length):
        """Drop the later positions."""
        self.states = self.states[:length]


class ToyNetwork:
    """
    A recurrent Network whose output depends on every position before it, in order.

    So a forward over a KV cache with missing or extra positions differs from a fresh one.
    """

    mel_bands = 4
    window_frames = 200

    def __init__(self, *, vocabulary=400, seed=0, width=8, sharpness=4.0):
        rng = np.random.default_rng(seed)
        self.vocabulary_size = vocabulary
        self.recurrence = rng.normal(size=(width, width)) * 0.6
        self.embedding = rng.normal(size=(vocabulary, width))
        self.projection = rng.normal(size=(self.mel_bands, width))
        self.out = rng.normal(size=(width, vocabulary)) * sharpness
        self.attention = rng.normal(size=(width, 4000))
        self.forwards = []  # positions of each forward
        self.frames = 0  # mel frames convolved
        self.encoded = 0  # seconds run through the layers
        self.fails = set()  # numbers of forwards that raise halfway

    def convolve(self, features):
        """Average every 8 frames of a second."""
        self.frames += features.shape[1]
        rows = range(0, features.shape[1], 8)
        return np.array([features[:, row : row + 8].mean(axis=1) for row in rows])

    def encode(self, seconds):
        """Add the mean of the window to all of its tokens."""
        self.encoded += len(seconds)
        rows = np.concatenate(seconds)
        return EncodedWindow((rows + rows.mean()) @ self.projection)

    def new_kv_cache(self):
        """Return an empty KV cache."""
        return ToyKVCache(len(self.recurrence))

    def forward(self, kv_cache, parts, *, rows, audio, among=()):
        """Advance the state by one position after another."""
        self.forwards.append(
            sum(part.tokens if isinstance(part, EncodedWindow) else len(part) for part in parts)
        )
        state = kv_cache.states[-1] if kv_cache.length else np.zeros(len(self.recurrence))
        states = list(kv_cache.states)
        for part in parts:
            is_audio = isinstance(part, EncodedWindow)
            vectors = part.embeddings if is_audio else self.embedding[list(part)]
            for vector in vectors:
                state = np.tanh(state @ self.recurrence + vector)
                states.append(state)
        if len(self.forwards) in self.fails:
            kv_cache.states = np.array(states)
            raise RuntimeError("out of memory")
        kv_cache.states = np.array(states)
        last = kv_cache.states[-rows:]
        logits = last @ self.out
        logits = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        among = list(among) or range(self.vocabulary_size)
        attention = last @ self.attention[:, : audio[1] - audio[0]]
        attention = np.exp(attention) / np.exp(attention).sum(axis=1, keepdims=True)
        return DecoderOutput(
            ids=np.array(among)[logits[:, among].argmax(axis=1)],
            logprobs=logits[:, among].max(axis=1).astype(np.float32),
            attention=attention.astype(np.float32),
            audio_attention_mass=np.ones(rows, dtype=np.float32),
        )


@pytest.fixture(scope="session")
def toy():
    """Return the class ToyNetwork, which tests cannot import from here."""
    return ToyNetwork


@pytest.fixture
def altered(tmp_path, checkpoint):
    """Return a function that copies the tiny checkpoint with altered weights or config."""

    def make(*, weights=None, config=None):
        from safetensors.torch import load_file, save_file  # noqa: PLC0415 -- imports torch

        for file in checkpoint.iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes())
        if weights is not None:
            state = load_file(checkpoint / "model.safetensors")
            weights(state)
            save_file(state, str(tmp_path / "model.safetensors"), metadata={"format": "pt"})
        if config is not None:
            table = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
            config(table["thinker_config"])
            (tmp_path / "config.json").write_text(json.dumps(table), encoding="utf-8")
        return tmp_path

    return make
