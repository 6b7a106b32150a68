"""Streams on one loaded model keep their languages apart and recover from failed engine calls."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from wlk_core.plugins import LoadedBackend, OptionError
from wlk_qwen3_simul.backend import open_stream, warmup
from wlk_qwen3_simul.checkpoint import Checkpoint
from wlk_qwen3_simul.engine.engine import Engine
from wlk_qwen3_simul.plugin import QWEN3_SIMUL

LANGUAGES = ["de", "en", "es", "fr", "it", "ja", "pt", "zh"]
POLICIES = ["alignatt", "local-agreement"]
RATE = 16_000


@pytest.fixture
def backend(toy, vocabulary):
    """Return a backend around a toy that emits words in each language."""
    network = toy(seed=1, vocabulary=330)
    engine = Engine(network=network, vocabulary=vocabulary, checkpoint=Checkpoint(name="toy"))
    return LoadedBackend(QWEN3_SIMUL, engine, open_stream=open_stream, warmup=warmup)


def noise(seed):
    """Return three seconds of noise, different for each seed."""
    return np.random.default_rng(seed).normal(size=3 * RATE).astype(np.float32) * 0.1


def test_warmup_forces_a_word(backend, vocabulary):
    """The forward over the KV cache has committed text after the audio, as those of streams."""
    network, parts = backend.engine.network, []
    forward = network.forward
    network.forward = lambda cache, new, **options: (
        parts.append(list(new[-1])) or forward(cache, new, **options)
    )
    backend.warmup()
    word = vocabulary.encode("a")

    assert any(word == ids[first : first + len(word)] for ids in parts for first in range(len(ids)))


def test_alignatt_is_refused_where_the_heads_are_unknown(backend):
    """It decides by them which words are final; LocalAgreement takes only times from them."""
    engine = attrs.evolve(backend.engine, has_known_heads=False)
    unknown = LoadedBackend(QWEN3_SIMUL, engine, open_stream=open_stream, warmup=warmup)

    unknown.create_processor(policy="local-agreement").close()
    with pytest.raises(OptionError, match=r"find them with: .*, or choose policy=local-agreement"):
        unknown.create_processor(policy="alignatt")
