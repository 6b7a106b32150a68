"""Three implementations of Voxtral Realtime agree: transformers, MLX and voxmlx."""

from __future__ import annotations

import os

import numpy as np
import pytest

from wlk_conformance.testing import StreamDriver, connected_digits
from wlk_core import load_backend

pytest.importorskip("voxmlx", reason="pip install 'wlk-voxtral-mlx[cpu,voxmlx]'")
pytest.importorskip("torch", reason="pip install wlk-voxtral-hf")

import torch

from wlk_voxtral_hf.torch import network as torch_network
from wlk_voxtral_mlx.mlx import network as mlx_network

MINUTES = 10.0 if os.environ.get("WLK_FULL") == "1" else 0.25  # nox -s full
ENGINES = {
    "transformers": ("voxtral-hf", {}),
    "native": ("voxtral-mlx", {"engine": "native"}),
    "voxmlx": ("voxtral-mlx", {"engine": "voxmlx"}),
}


@pytest.fixture(scope="module", autouse=True)
def _single_thread():
    """Keep torch to one thread, because tests run beside others."""
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def audio():
    """Return connected digits in several voices without a silence that ends an utterance."""
    parts = [
        connected_digits(12, seed=seed, gap=(0.05, 0.8), lead=0.2, tail=0.4).audio
        for seed in range(max(2, round(6 * MINUTES)))
    ]
    return np.concatenate(parts)[: round(60 * 16_000 * MINUTES)]


@pytest.fixture
def logits(monkeypatch):
    """Return a list to which every forward pass adds float32[positions, vocabulary]."""
    rows = []
    torch_predictions = torch_network.TorchNetwork._predictions
    mlx_best = mlx_network._best

    def predictions(self, values):
        output = torch_predictions(self, values)  # sets the end of text to -inf, as on MLX
        rows.append(values.numpy().copy())
        return output

    def best(values):
        rows.append(np.array(values))
        return mlx_best(values)

    monkeypatch.setattr(torch_network.TorchNetwork, "_predictions", predictions)
    monkeypatch.setattr(mlx_network, "_best", best)
    return rows


@pytest.mark.slow
def test_all_engines_compute_the_same_logits_and_words(audio, logits):
    """Logits agree position by position to 1e-4, and so do ids, words and times."""
    results = {}
    for engine, (name, options) in ENGINES.items():
        logits.clear()
        with load_backend(name, "digits", **options) as backend:
            driver = StreamDriver(backend.create_processor(draft_steps=1))
            driver.feed(audio, chunk_seconds=1.0)
            driver.finish()
        words = [(token.text, token.start, token.end) for token in driver.tokens]
        results[engine] = (np.concatenate(logits), words)
    expected, expected_words = results.pop("transformers")
    finite = np.isfinite(expected)
    tolerance = 1e-4 * max(1.0, np.abs(expected[finite]).max())

    assert len(expected) > 12.5 * 60 * MINUTES
    assert len(expected_words) > 45 * MINUTES
    for engine, (values, words) in results.items():
        np.testing.assert_array_equal(finite, np.isfinite(values), err_msg=engine)
        assert np.abs(expected[finite] - values[finite]).max() <= tolerance, engine
        np.testing.assert_array_equal(
            expected.argmax(axis=1), values.argmax(axis=1), err_msg=engine
        )
        assert expected_words == words, engine


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_drafting_changes_no_word(audio, engine):
    """A backlog that is decoded eight steps at once gives the words of a live stream."""
    name, options = ENGINES[engine]
    words, passes = [], []
    with load_backend(name, "digits", **options) as backend:
        for draft_steps, seconds in ((1, 0.08), (8, 60.0)):
            driver = StreamDriver(backend.create_processor(draft_steps=draft_steps))
            driver.feed(audio, chunk_seconds=seconds)
            driver.finish()
            words.append([(token.text, token.start, token.end) for token in driver.tokens])
            passes.append(driver.processor.stats.decoder_forwards / (len(audio) / 16_000))

    assert words[0] == words[1]
    assert passes[0] >= 12.5
    assert passes[1] <= 6.0
