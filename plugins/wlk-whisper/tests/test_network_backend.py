"""Warming up a network: every pass that a stream makes, none of it left behind."""

from __future__ import annotations

from pathlib import Path

import attrs
from faster_whisper.feature_extractor import FeatureExtractor
import numpy as np
import pytest
import tokenizers

from wlk_core import StreamClosed
import wlk_whisper
from wlk_whisper.checkpoint import Checkpoint
from wlk_whisper.decoder.engine import Engine
from wlk_whisper.decoder.network import Forward
from wlk_whisper.heads import AlignmentHeads
from wlk_whisper.network_backend import NetworkBackend
from wlk_whisper.specs.torch import WHISPER

VOCABULARY = tokenizers.Tokenizer.from_file(
    str(Path(wlk_whisper.__file__).parent / "digits/ctranslate2/tokenizer.json")
)
END = 50257


class OutOfMemoryError(RuntimeError):
    """What a device raises."""


@attrs.define(eq=False)
class EndingNetwork:
    """
    A decoder that ends every text at once, and notes its passes.

    Attributes:
        fails: which passes raise: those with attention, by how many tokens they are given.
        looks: whether attention is given where it is asked for.
        passes: how many tokens each pass was given, and whether with attention.

    """

    fails: range | None = None
    looks: bool = True
    passes: list[tuple[int, bool]] = attrs.Factory(list)
    mels: int = 80
    vocabulary: int = 51865
    text_positions: int = 448
    alignment_heads: tuple[tuple[int, int], ...] = ((2, 0), (3, 1))

    def encode(self, features):
        """Return the number of positions of float32[mels, frames]."""
        return features.shape[1] // 2

    def begin(self, encoded):
        """Return a run without tokens."""
        return EndingRun(self, encoded)


@attrs.frozen(eq=False)
class EndingRun:
    """A run over so many positions."""

    network: EndingNetwork
    positions: int

    def forward(self, tokens, *, keep=(-1,), attend=False):
        """Return logits that are sure of the end, and attention to everything alike."""
        network = self.network
        rows, count = tokens.shape
        network.passes.append((count, attend))
        if attend and network.fails is not None and count in network.fails:
            raise OutOfMemoryError("out of memory")
        logits = np.zeros((rows, len(list(keep)), network.vocabulary), dtype=np.float32)
        logits[..., END] = 30.0
        shape = (rows, len(network.alignment_heads), count, self.positions)
        attention = np.full(shape, 1 / self.positions, dtype=np.float32)
        return Forward(logits=logits, attention=attention if attend and network.looks else None)

    def reorder(self, rows):
        """All rows are alike."""


def backend_on(network, *, are_known=True):
    """Return the backend of *network*, with heads that align or that nobody knows."""
    engine = Engine(
        network=network,
        vocabulary=VOCABULARY,
        extractor=FeatureExtractor(feature_size=80),
        checkpoint=Checkpoint(name="ending", takes_shorter_input=True),
    )
    heads = AlignmentHeads(pairs=network.alignment_heads, are_known=are_known)
    return NetworkBackend(WHISPER, engine, heads=heads)


@pytest.mark.parametrize(("are_known", "attended"), [(True, 2), (False, 1)])
def test_warmup_runs_the_text_its_alignment_and_alignatt_where_its_heads_are_known(
    are_known, attended
):
    """The passes with attention are those of a stream; AlignAtt would refuse unknown heads."""
    network = EndingNetwork()
    backend_on(network, are_known=are_known).warmup()

    assert any(not attend for _, attend in network.passes)
    assert attended == sum(attend for _, attend in network.passes)


@pytest.mark.parametrize("are_known", [True, False])
def test_warmup_raises_what_the_attention_raises(are_known):
    """A pass without attention says nothing about one with it."""
    network = EndingNetwork(fails=range(1, 448))

    with pytest.raises(OutOfMemoryError):
        backend_on(network, are_known=are_known).warmup()


def test_warmup_raises_where_attention_is_asked_for_and_none_comes():
    """No attention would be words without times."""
    with pytest.raises(ValueError, match="expected the attention"):
        backend_on(EndingNetwork(looks=False)).warmup()


def test_warmup_leaves_no_trace_in_a_stream_that_is_open():
    """It goes through no stream: counters and audio are as they were."""
    backend = backend_on(EndingNetwork())
    stream = backend.create_processor(language="en")
    stream.insert_audio_chunk(np.zeros(24_000, dtype=np.float32))
    stream.process_iter()
    before = stream.stats
    backend.warmup()

    assert before == stream.stats
    assert () == stream.finish().committed


def test_a_closed_backend_has_nothing_to_warm_up():
    """The model may be gone."""
    backend = backend_on(EndingNetwork())
    backend.close()

    with pytest.raises(StreamClosed):
        backend.warmup()
