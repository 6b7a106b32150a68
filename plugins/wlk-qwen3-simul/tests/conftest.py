"""A tiny checkpoint with random weights, and a network small enough to be checked by hand."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from hypothesis import settings
import numpy as np
import pytest

from wlk_qwen3_simul.simul.network import Looked
from wlk_qwen3_simul.text.vocabulary import Vocabulary

# A busy machine is no failure, and every run draws the same examples.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")


def load_tiny():
    """Return the module that writes checkpoints: it lies beside the tests, which are no package."""
    path = Path(__file__).parent / "tiny.py"
    spec = importlib.util.spec_from_file_location("wlk_qwen3_simul_tiny", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def tiny():
    """Return what writes tiny checkpoints."""
    return load_tiny()


@pytest.fixture(scope="session")
def files(tiny, tmp_path_factory):
    """Return a directory with a tokenizer and nothing else."""
    place = tmp_path_factory.mktemp("tokenizer")
    tiny.write_tokenizer(place)
    return place


@pytest.fixture(scope="session")
def vocabulary(files):
    """Return the vocabulary of the tiny checkpoint."""
    return Vocabulary.read(files)


@pytest.fixture(scope="session")
def checkpoint(tiny, tmp_path_factory):
    """Return the directory of a tiny checkpoint in the original layout."""
    pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
    pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")
    return tiny.write_checkpoint(tmp_path_factory.mktemp("tiny") / "model")


class ToyEncoded:
    """One vector a token: the mean of its frames."""

    def __init__(self, vectors):
        self.vectors = vectors

    @property
    def tokens(self):
        """Count the tokens."""
        return len(self.vectors)

    @property
    def nbytes(self):
        """Return the bytes of the vectors."""
        return self.vectors.nbytes


class ToyMemory:
    """The state behind every position."""

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

    def keep(self, length):
        """Forget what is behind."""
        self.states = self.states[:length]


class ToyNetwork:
    """
    A recurrent network behind the seam: what it says depends on all it was told, in order.

    So a pass behind kept state is easily told from one that forgets, or keeps too much.
    """

    mels = 4
    window_frames = 200

    def __init__(self, *, vocabulary=400, seed=0, width=8, sharpness=4.0):
        rng = np.random.default_rng(seed)
        self.vocabulary = vocabulary
        self.turn = rng.normal(size=(width, width)) * 0.6
        self.embedding = rng.normal(size=(vocabulary, width))
        self.ear = rng.normal(size=(self.mels, width))
        self.out = rng.normal(size=(width, vocabulary)) * sharpness
        self.look = rng.normal(size=(width, 4000))
        self.passes = []
        self.frames = 0  # convolved
        self.encoded = 0  # seconds that went through the layers
        self.fails = set()  # numbers of passes that raise halfway

    def convolve(self, features):
        """Average every 8 frames of a second."""
        self.frames += features.shape[1]
        rows = range(0, features.shape[1], 8)
        return np.array([features[:, row : row + 8].mean(axis=1) for row in rows])

    def encode(self, stems):
        """Let what is in a window colour all of it."""
        self.encoded += len(stems)
        rows = np.concatenate(stems)
        return ToyEncoded((rows + rows.mean()) @ self.ear)

    def open(self):
        """Return a memory without positions."""
        return ToyMemory(len(self.turn))

    def extend(self, memory, parts, *, rows, audio):
        """Turn the state by one position after another."""
        self.passes.append(
            sum(one.tokens if isinstance(one, ToyEncoded) else len(one) for one in parts)
        )
        state = memory.states[-1] if memory.length else np.zeros(len(self.turn))
        states = list(memory.states)
        for part in parts:
            told = part.vectors if isinstance(part, ToyEncoded) else self.embedding[list(part)]
            for vector in told:
                state = np.tanh(state @ self.turn + vector)
                states.append(state)
        if len(self.passes) in self.fails:
            memory.states = np.array(states)
            raise RuntimeError("out of memory")
        memory.states = np.array(states)
        last = memory.states[-rows:]
        logits = last @ self.out
        logits = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        attention = last @ self.look[:, : audio[1] - audio[0]]
        attention = np.exp(attention) / np.exp(attention).sum(axis=1, keepdims=True)
        return Looked(
            ids=logits.argmax(axis=1),
            log_probs=logits.max(axis=1).astype(np.float32),
            attention=attention.astype(np.float32),
            heed=np.ones(rows, dtype=np.float32),
        )


@pytest.fixture(scope="session")
def toy():
    """Return what makes a ToyNetwork."""
    return ToyNetwork
