"""Voxtral Realtime on transformers, MLX and voxmlx: equal words, at every delay."""

from __future__ import annotations

import os

import numpy as np
import pytest

from wlk_conformance.compare import align, word_errors
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


def streamed(backend, audio, *, chunk_seconds=1.0, **options):
    """Return the driver of a stream that was fed *audio*, and its words with times."""
    driver = StreamDriver(backend.create_processor(**options))
    driver.feed(audio, chunk_seconds=chunk_seconds)
    driver.finish()
    return driver, [(token.text, token.start, token.end) for token in driver.tokens]


@pytest.mark.slow
def test_all_engines_compute_the_same_logits_and_words(audio, logits):
    """Logits agree to 1e-4, and so do ids, words and times; drafts change none of them."""
    results = {}
    seconds = len(audio) / 16_000
    for engine, (name, options) in ENGINES.items():
        logits.clear()
        with load_backend(name, "digits", **options) as backend:
            driver, words = streamed(backend, audio, draft_steps=1)
            results[engine] = (np.concatenate(logits), words)
            drafted, same_words = streamed(backend, audio, chunk_seconds=60.0, draft_steps=8)
        assert words == same_words, engine
        # A backlog is decoded several steps at once.
        assert driver.processor.stats.decoder_forwards >= 12.5 * seconds
        assert drafted.processor.stats.decoder_forwards <= 6.0 * seconds
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
@pytest.mark.parametrize("delay_ms", [240, 480, 800])
@pytest.mark.parametrize("engine", ["transformers", "native"])
def test_words_end_where_they_are_spoken_at_every_delay(engine, delay_ms):
    """95 % of the ends are right to a step of the model, and the text to a word."""
    errors, differences = 0, []
    name, options = ENGINES[engine]
    with load_backend(name, "digits", **options) as backend:
        for seed in range(70, 74):
            clip = connected_digits(10, seed=seed, gap=(0.05, 0.6), lead=0.2, tail=0.3)
            driver, words = streamed(backend, clip.audio, delay_ms=delay_ms)
            texts = [text.strip() for text, _, _ in words]
            reference = clip.text.split()
            errors += word_errors(reference, texts)
            pairs = align(reference, texts)
            differences += [abs(driver.tokens[j].end - clip.words[i].end) for i, j in pairs]

    assert errors <= 1
    assert np.quantile(differences, 0.95) <= 0.08 + 1e-6
