"""An engine refuses a tokenizer and a network that belong to different models."""

from __future__ import annotations

import attrs
import pytest

from wlk_core import ModelNotFoundError
from wlk_qwen3_simul.checkpoint import Checkpoint
from wlk_qwen3_simul.engine.engine import Engine


def test_a_tokenizer_with_more_ids_than_the_network_is_refused(toy, vocabulary):
    """Its special tokens would have no embedding, and every stream would fail at once."""
    rows = max(vocabulary.special_ids.values())
    with pytest.raises(ModelNotFoundError, match=f"up to {vocabulary.highest_id}.* of {rows} rows"):
        Engine(
            network=toy(vocabulary=rows), vocabulary=vocabulary, checkpoint=Checkpoint(name="own")
        )


def test_an_end_that_the_network_cannot_emit_is_refused(toy, vocabulary):
    """Such an id belongs to another model."""
    ends = vocabulary.end_ids | {5000}
    with pytest.raises(ModelNotFoundError, match="ids up to 5000"):
        Engine(
            network=toy(vocabulary=vocabulary.highest_id + 1),
            vocabulary=attrs.evolve(vocabulary, end_ids=ends),
            checkpoint=Checkpoint(name="own"),
        )


def test_an_embedding_may_have_rows_to_spare(toy, vocabulary):
    """The embeddings of the published models are padded."""
    for spare in (1, 200):
        network = toy(vocabulary=vocabulary.highest_id + spare)
        engine = Engine(network=network, vocabulary=vocabulary, checkpoint=Checkpoint(name="own"))

        assert engine.network is network
