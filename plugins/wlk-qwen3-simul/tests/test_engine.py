"""A network and a tokenizer that are not of one model never become an engine."""

from __future__ import annotations

import attrs
import pytest

from wlk_core import ModelNotFoundError
from wlk_qwen3_simul.checkpoint import Checkpoint
from wlk_qwen3_simul.simul.engine import Engine


def test_a_tokenizer_with_more_ids_than_the_network_is_refused(toy, vocabulary):
    """Its marks would have no embedding, and the first pass of every stream would fail."""
    rows = max(vocabulary.marks.values())
    with pytest.raises(ModelNotFoundError, match=f"up to {vocabulary.highest}.* of {rows} rows"):
        Engine(
            network=toy(vocabulary=rows), vocabulary=vocabulary, checkpoint=Checkpoint(name="own")
        )


def test_an_end_that_the_network_cannot_say_is_refused(toy, vocabulary):
    """It is that of another model."""
    ends = vocabulary.ends | {5000}
    with pytest.raises(ModelNotFoundError, match="ids up to 5000"):
        Engine(
            network=toy(vocabulary=vocabulary.highest + 1),
            vocabulary=attrs.evolve(vocabulary, ends=ends),
            checkpoint=Checkpoint(name="own"),
        )


def test_an_embedding_may_have_rows_to_spare(toy, vocabulary):
    """The published ones are padded."""
    for spare in (1, 200):
        network = toy(vocabulary=vocabulary.highest + spare)
        engine = Engine(network=network, vocabulary=vocabulary, checkpoint=Checkpoint(name="own"))

        assert engine.network is network
