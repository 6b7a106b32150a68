"""Words of Voxtral's digits checkpoint on both backends, at every delay it was trained for."""

from __future__ import annotations

import numpy as np
import pytest

from wlk_conformance.compare import align, word_errors
from wlk_conformance.testing import StreamDriver, connected_digits
from wlk_core import load_backend

torch = pytest.importorskip("torch", reason="pip install wlk-voxtral-hf")

STEP = 0.08  # seconds of a step of the model
ENGINES = {"transformers": ("voxtral-hf", {}), "native": ("voxtral-mlx", {"engine": "native"})}


@pytest.fixture(scope="module", autouse=True)
def _single_thread():
    """Keep torch to one thread, because tests run beside others."""
    torch.set_num_threads(1)


@pytest.fixture(scope="module", params=ENGINES)
def backend(request, _single_thread):
    """Return a backend with its bundled checkpoint."""
    name, options = ENGINES[request.param]
    with load_backend(name, "digits", **options) as loaded:
        yield loaded


@pytest.mark.slow
@pytest.mark.parametrize("delay_ms", [240, 480, 800])
def test_words_end_where_they_are_spoken(backend, delay_ms):
    """The delay moves no time: 95 % of the ends are right to a step, and the text to a word."""
    errors, differences = 0, []
    for seed in range(70, 74):
        clip = connected_digits(10, seed=seed, gap=(0.05, 0.6), lead=0.2, tail=0.3)
        driver = StreamDriver(backend.create_processor(delay_ms=delay_ms))
        driver.feed(clip.audio, chunk_seconds=1.0)
        driver.finish()
        reference = clip.text.split()
        words = [token.text.strip() for token in driver.tokens]
        errors += word_errors(reference, words)
        differences += [
            abs(driver.tokens[j].end - clip.words[i].end) for i, j in align(reference, words)
        ]

    assert errors <= 1
    assert np.quantile(differences, 0.95) <= STEP + 1e-6
