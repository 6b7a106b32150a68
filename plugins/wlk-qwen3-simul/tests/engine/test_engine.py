"""An engine refuses a tokenizer and a network that belong to different models."""

from __future__ import annotations

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
