"""The digits model, loaded once for all tests, and a network small enough to be checked by hand."""

from __future__ import annotations

from hypothesis import settings
import numpy as np
import pytest

from wlk_core import load_backend
from wlk_whisper.decoder.network import Forward

# A busy machine is no failure, and every run draws the same examples.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")


class ToyNetwork:
    """
    A recurrent network behind the seam of Whisper's: what it says depends on all it was told.

    Each row carries one state vector, which a token turns into the next; logits and attention are
    read off the state.  So a run by single tokens, or by reordered rows, is easily told from one
    that forgets.
    """

    mels = 80
    text_positions = 64
    alignment_heads = ((0, 0), (0, 1), (1, 0))

    def __init__(self, *, vocabulary=40, seed=0, width=8):
        rng = np.random.default_rng(seed)
        self.vocabulary = vocabulary
        self.turn = rng.normal(size=(width, width)) * 0.9
        self.tokens = rng.normal(size=(vocabulary, width))
        self.out = rng.normal(size=(width, vocabulary)) * 1.5
        self.look = rng.normal(size=(len(self.alignment_heads), width, 24))

    def encode(self, features):
        """Take the length of float32[mels, frames]."""
        return ToyEncoded(features.shape[1] // 2)

    def begin(self, encoded):
        """Return a run without tokens."""
        return ToyRun(self, encoded.positions)

    def after(self, tokens, *, positions=24):
        """Return logits[new, vocabulary] and attention[heads, new, positions] of a whole row."""
        done = self.begin(ToyEncoded(positions)).forward(
            np.array([tokens]), keep=range(len(tokens)), attend=True
        )
        return done.logits[0], done.attention[0]


class ToyEncoded:
    """Nothing but a length."""

    def __init__(self, positions):
        self.positions = positions


class ToyRun:
    """The states of the rows."""

    def __init__(self, network, positions):
        self.network, self.positions = network, positions
        self.states = np.zeros((1, network.turn.shape[0]))

    def forward(self, tokens, *, keep=(-1,), attend=False):
        """Turn the states by one token after another."""
        network = self.network
        states = []
        for column in tokens.T:
            self.states = np.tanh(self.states @ network.turn + network.tokens[column])
            states.append(self.states)
        walked = np.stack(states, axis=1)
        logits = (walked[:, list(keep)] @ network.out).astype(np.float32)
        weights = np.exp(np.einsum("rnw,hwp->rhnp", walked, network.look)[..., : self.positions])
        attention = (weights / weights.sum(-1, keepdims=True)).astype(np.float32)
        return Forward(logits=logits, attention=attention if attend else None)

    def reorder(self, rows):
        """Let rows go on from others."""
        self.states = self.states[list(rows)]


@pytest.fixture(scope="session")
def toy():
    """Return what makes a ToyNetwork."""
    return ToyNetwork


@pytest.fixture(scope="session")
def backend():
    """Return faster-whisper with the bundled checkpoint."""
    with load_backend("faster-whisper", "digits") as loaded:
        yield loaded
