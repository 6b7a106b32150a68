"""Words of the digits checkpoint, at every delay it was trained for."""

from __future__ import annotations

import numpy as np
import pytest

from wlk_core.testing import StreamDriver, connected_digits

STEP = 0.08


@pytest.mark.slow
@pytest.mark.parametrize("delay_ms", [240, 480, 800])
def test_words_end_where_they_end(backend, delay_ms):
    """The delay moves no time: 95 % of the ends are right to a step, and the text to a word."""
    wrong, apart = 0, []
    for seed in range(70, 74):
        clip = connected_digits(10, seed=seed, gap=(0.05, 0.6), lead=0.2, tail=0.3)
        driver = StreamDriver(backend.create_processor(delay_ms=delay_ms))
        driver.feed(clip.audio, chunk_seconds=1.0)
        driver.finish()
        words = [token.text.strip() for token in driver.tokens]
        if words != clip.text.split():
            wrong += 1
            continue
        apart += [
            abs(token.end - word.end) for token, word in zip(driver.tokens, clip.words, strict=True)
        ]

    assert wrong <= 1
    assert np.quantile(apart, 0.95) <= STEP + 1e-6
