"""Warmup of a network: every pass that a stream makes, without a trace in any stream."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace

import attrs
import numpy as np
import pytest

from wlk_core.plugins import LoadedBackend
from wlk_whisper.backend import _open_stream, _warm_up
from wlk_whisper.checkpoint import Checkpoint
from wlk_whisper.ctranslate2.backend import BUNDLED
from wlk_whisper.engine.alignment_heads import AlignmentHeads
from wlk_whisper.engine.engine import WhisperEngine
from wlk_whisper.engine.model_files import read_tokenizer
from wlk_whisper.engine.network import DecoderOutput
from wlk_whisper.plugin import WHISPER

HF_TOKENIZER = read_tokenizer(BUNDLED, n_vocab=51865)
END = 50257


class OutOfMemoryError(RuntimeError):
    """The error of a device."""


@attrs.define(eq=False)
class EndingNetwork:
    """
    A network whose decoder ends every text at once, and records its passes.

    Attributes:
        fails: which passes with attention raise, by their number of tokens.
        has_attention: whether requested attention is returned.
        passes: how many tokens each pass had, and whether attention was requested.

    """

    fails: range | None = None
    has_attention: bool = True
    passes: list[tuple[int, bool]] = attrs.Factory(list)
    n_mels: int = 80
    n_vocab: int = 51865
    n_text_ctx: int = 448
    alignment_heads: tuple[tuple[int, int], ...] = ((2, 0), (3, 1))

    def encode(self, features, *, is_padded=False):
        """Return the number of encoder frames of float32[mels, frames]."""
        return features.shape[1] // 2

    def new_decoder(self, encoder_output):
        """Return a decoder without tokens."""
        return EndingDecoder(self, encoder_output)


@attrs.frozen(eq=False)
class EndingDecoder:
    """A decoder over so many encoder frames."""

    network: EndingNetwork
    frames: int

    def forward(self, tokens, *, logits_to_keep=(-1,), output_attention=False):
        """Return logits that are sure of the end, and uniform attention."""
        network = self.network
        rows, count = tokens.shape
        network.passes.append((count, output_attention))
        if output_attention and network.fails is not None and count in network.fails:
            raise OutOfMemoryError("out of memory")
        logits = np.zeros((rows, len(list(logits_to_keep)), network.n_vocab), dtype=np.float32)
        logits[..., END] = 30.0
        shape = (rows, len(network.alignment_heads), count, self.frames)
        attention = np.full(shape, 1 / self.frames, dtype=np.float32)
        is_returned = output_attention and network.has_attention
        return DecoderOutput(logits=logits, cross_attention=attention if is_returned else None)

    def reorder_cache(self, rows):
        """Change nothing, because all rows are the same."""


def backend_on(network, *, are_known=True):
    """Return the backend of *network*, with known or unknown alignment heads."""
    engine = WhisperEngine(
        network=network,
        hf_tokenizer=HF_TOKENIZER,
        checkpoint=Checkpoint(name="ending", takes_shorter_input=True),
        alignment_heads=AlignmentHeads(pairs=network.alignment_heads, are_known=are_known),
    )
    return LoadedBackend(WHISPER, engine, open_stream=_open_stream, warmup=_warm_up)


@pytest.mark.parametrize(("are_known", "with_attention"), [(True, 2), (False, 1)])
def test_warmup_runs_the_text_its_alignment_and_alignatt_where_its_heads_are_known(
    are_known, with_attention
):
    """The passes with attention are those of a stream; AlignAtt refuses unknown heads."""
    network = EndingNetwork()
    backend_on(network, are_known=are_known).warmup()

    assert any(not has_attention for _, has_attention in network.passes)
    assert with_attention == sum(has_attention for _, has_attention in network.passes)


@pytest.mark.parametrize("are_known", [True, False])
def test_warmup_raises_errors_of_passes_with_attention(are_known):
    """A pass without attention does not prove that one with attention runs."""
    network = EndingNetwork(fails=range(1, 448))

    with pytest.raises(OutOfMemoryError):
        backend_on(network, are_known=are_known).warmup()


def test_warmup_raises_where_requested_attention_is_missing():
    """Without attention words would have no times."""
    with pytest.raises(ValueError, match="expected the requested cross attention"):
        backend_on(EndingNetwork(has_attention=False)).warmup()


def test_engine_calls_of_two_streams_are_taken_together():
    """The core takes calls together whose functions are equal."""
    backend, passed = backend_on(EndingNetwork()), []
    calls = SimpleNamespace(wrap_batch=lambda function: passed.append(function) or function)
    config = SimpleNamespace(
        policy="local-agreement",
        task="transcribe",
        language="en",
        options=defaultdict(lambda: None),
    )
    for _ in range(2):
        _open_stream(backend.engine, config, calls)

    assert passed[0] == passed[1]
