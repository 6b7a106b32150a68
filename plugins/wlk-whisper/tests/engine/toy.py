"""A network small enough to be recomputed by hand, and the filter of its vocabulary."""

from __future__ import annotations

import numpy as np

from wlk_whisper.engine.logit_filters import LogitFilter
from wlk_whisper.engine.network import DecoderOutput

EOT, SOT, NO_SPEECH, TIMESTAMPS = 20, 21, 22, 25
PROMPT = (SOT, 23)


def make_filter(**changes):
    """Return the filter of a vocabulary of 40: 20 words, specials, 15 timestamps."""
    fields = {
        "suppress_tokens": np.array([3, 7, 21, 22, 23, 24]),
        "begin_suppress_tokens": np.array([EOT]),
        "has_timestamps": False,
        "max_initial_timestamp": 4,
    } | changes
    return LogitFilter(sot=SOT, eot=EOT, no_speech=NO_SPEECH, timestamp_begin=TIMESTAMPS, **fields)


class ToyNetwork:
    """
    A recurrent network with the Network protocol: its output depends on all of its input.

    Each row has one state vector, which a token turns into the next; logits and attention are
    functions of the state.  So the output differs if a decoder loses or mixes up its cache.
    """

    n_mels = 80
    n_text_ctx = 64
    alignment_heads = ((0, 0), (0, 1), (1, 0))

    def __init__(self, *, n_vocab=40, seed=0, width=8):
        rng = np.random.default_rng(seed)
        self.n_vocab = n_vocab
        self.recurrent = rng.normal(size=(width, width)) * 0.9
        self.embedding = rng.normal(size=(n_vocab, width))
        self.output = rng.normal(size=(width, n_vocab)) * 1.5
        self.attention = rng.normal(size=(len(self.alignment_heads), width, 24))

    def encode(self, features, *, silence_stride=0):
        """Return the length of *features*, float32[mels, frames]."""
        return ToyEncoderOutput(features.shape[1] // 2)

    def new_decoder(self, encoder_output):
        """Return a decoder without tokens."""
        return ToyDecoder(self, encoder_output.frames)

    def recompute(self, tokens, *, frames=24):
        """Return logits[new, vocabulary] and attention[heads, new, frames] of a whole row."""
        output = self.new_decoder(ToyEncoderOutput(frames)).forward(
            np.array([tokens]), logits_to_keep=range(len(tokens)), output_attention=True
        )
        return output.logits[0], output.cross_attention[0]


class ToyEncoderOutput:
    """An encoder output that is only a length."""

    def __init__(self, frames):
        self.frames = frames


class ToyDecoder:
    """The states of the rows."""

    def __init__(self, network, frames):
        self.network, self.frames = network, frames
        self.states = np.zeros((1, network.recurrent.shape[0]))

    def forward(self, tokens, *, logits_to_keep=(-1,), output_attention=False):
        """Update the states by one token after another."""
        network = self.network
        states = []
        for column in tokens.T:
            self.states = np.tanh(self.states @ network.recurrent + network.embedding[column])
            states.append(self.states)
        new = np.stack(states, axis=1)
        logits = (new[:, list(logits_to_keep)] @ network.output).astype(np.float32)
        weights = np.exp(np.einsum("rnw,hwp->rhnp", new, network.attention)[..., : self.frames])
        attention = (weights / weights.sum(-1, keepdims=True)).astype(np.float32)
        return DecoderOutput(logits=logits, cross_attention=attention if output_attention else None)

    def reorder_cache(self, rows):
        """Make rows continue from others."""
        self.states = self.states[list(rows)]
