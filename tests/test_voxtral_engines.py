"""Three implementations of Voxtral Realtime say the same: transformers, MLX and voxmlx."""

from __future__ import annotations

import os

import numpy as np
import pytest

from wlk_core import load_backend
from wlk_core.testing import StreamDriver, connected_digits

pytest.importorskip("voxmlx", reason="pip install 'wlk-voxtral-mlx[cpu,voxmlx]'")
pytest.importorskip("torch", reason="pip install wlk-voxtral-hf")

import torch

from wlk_voxtral_hf import engine as hf_engine
from wlk_voxtral_mlx import engine as mlx_engine

MINUTES = 10.0 if os.environ.get("WLK_FULL") == "1" else 0.25  # nox -s full
ENGINES = {
    "transformers": ("voxtral-hf", {}),
    "native": ("voxtral-mlx", {"engine": "native"}),
    "voxmlx": ("voxtral-mlx", {"engine": "voxmlx"}),
}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Keep to one thread: tests run beside others."""
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def audio():
    """Return connected digits in several voices without a silence that ends a run."""
    parts = [
        connected_digits(12, seed=seed, gap=(0.05, 0.8), lead=0.2, tail=0.4).audio
        for seed in range(max(2, round(6 * MINUTES)))
    ]
    return np.concatenate(parts)[: round(60 * 16_000 * MINUTES)]


@pytest.fixture
def logits(monkeypatch):
    """Return a list to which every pass of a decoder adds float32[positions, vocabulary]."""
    seen = []
    choose, choices = hf_engine._Pass._choose, mlx_engine._choices

    def of_torch(self, rows):
        told = choose(self, rows)  # leaves the end of text at -inf, as MLX gets it
        seen.append(rows.numpy().copy())
        return told

    def of_mlx(rows):
        seen.append(np.array(rows))
        return choices(rows)

    monkeypatch.setattr(hf_engine._Pass, "_choose", of_torch)
    monkeypatch.setattr(mlx_engine, "_choices", of_mlx)
    return seen


@pytest.mark.slow
def test_all_engines_come_to_the_same_logits_and_words(audio, logits):
    """Position by position to 1e-4, and so the same ids and words at the same times."""
    heard = {}
    for engine, (name, options) in ENGINES.items():
        logits.clear()
        with load_backend(name, "digits", **options) as backend:
            driver = StreamDriver(backend.create_processor(draft_steps=1))
            driver.feed(audio, chunk_seconds=1.0)
            driver.finish()
        words = [(token.text, token.start, token.end) for token in driver.tokens]
        heard[engine] = (np.concatenate(logits), words)
    expected, words = heard.pop("transformers")

    assert len(expected) > 12.5 * 60 * MINUTES
    assert len(words) > 45 * MINUTES
    for engine, (came, others) in heard.items():
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(finite, np.isfinite(came), err_msg=engine)
        apart = np.abs(expected[finite] - came[finite]).max()
        assert apart <= 1e-4 * max(1.0, np.abs(expected[finite]).max()), engine
        np.testing.assert_array_equal(expected.argmax(axis=1), came.argmax(axis=1), err_msg=engine)
        assert words == others, engine


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_drafting_changes_no_word(audio, engine):
    """A backlog that is decoded eight steps at once says what a live stream says."""
    name, options = ENGINES[engine]
    heard, passes = [], []
    with load_backend(name, "digits", **options) as backend:
        for draft_steps, seconds in ((1, 0.08), (8, 60.0)):
            driver = StreamDriver(backend.create_processor(draft_steps=draft_steps))
            driver.feed(audio, chunk_seconds=seconds)
            driver.finish()
            heard.append([(token.text, token.start, token.end) for token in driver.tokens])
            passes.append(driver.processor.stats.decoder_forwards / (len(audio) / 16_000))

    assert heard[0] == heard[1]
    assert passes[0] >= 12.5
    assert passes[1] <= 6.0
