"""Voxtral Realtime on transformers, MLX and voxmlx: the same words, at every delay."""

from __future__ import annotations

import os

import numpy as np
import pytest

from wlk_conformance.compare import align, word_errors
from wlk_conformance.testing import StreamDriver, connected_digits
from wlk_core import load_backend

pytest.importorskip("voxmlx", reason="pip install 'wlk-voxtral-mlx[cpu,voxmlx]'")
pytest.importorskip("torch", reason="pip install wlk-voxtral-hf")

MINUTES = 10.0 if os.environ.get("WLK_FULL") == "1" else 0.25  # nox -s full
ENGINES = {
    "transformers": ("voxtral-hf", {}),
    "native": ("voxtral-mlx", {"engine": "native"}),
    "voxmlx": ("voxtral-mlx", {"engine": "voxmlx"}),
}


def streamed(backend, audio, *, chunk_seconds=1.0, **options):
    """Return the driver of a stream after it was fed *audio*, and its words with times."""
    driver = StreamDriver(backend.create_processor(**options))
    driver.feed(audio, chunk_seconds=chunk_seconds)
    driver.finish()
    return driver, [(token.text, token.start, token.end) for token in driver.tokens]


@pytest.mark.slow
def test_all_engines_give_the_same_words_with_and_without_drafts():
    """Words and times are equal; the plugins' own tests compare the logits."""
    parts = [
        connected_digits(12, seed=seed, gap=(0.05, 0.8), lead=0.2, tail=0.4).audio
        for seed in range(max(2, round(6 * MINUTES)))
    ]
    audio = np.concatenate(parts)[: round(60 * 16_000 * MINUTES)]
    seconds, results = len(audio) / 16_000, []
    for name, options in ENGINES.values():
        with load_backend(name, "digits", **options) as backend:
            single, words = streamed(backend, audio, draft_steps=1)
            drafted, same_words = streamed(backend, audio, chunk_seconds=60.0, draft_steps=8)
        results += [words, same_words]
        # With drafts a backlog is decoded several steps at a time.
        assert single.processor.stats.decoder_forwards >= 12.5 * seconds
        assert drafted.processor.stats.decoder_forwards <= 6.0 * seconds

    assert len(results[0]) > 45 * MINUTES
    assert results == len(ENGINES) * 2 * [results[0]]


@pytest.mark.slow
@pytest.mark.parametrize("delay_ms", [240, 480, 800])
@pytest.mark.parametrize("engine", ["transformers", "native"])
def test_words_end_where_they_are_spoken_at_every_delay(engine, delay_ms):
    """95 % of the ends are within one step of the model, and at most one word is wrong."""
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
