"""The features equal those of transformers, on which smart-turn v3 was trained."""

from __future__ import annotations

import numpy as np
import pytest

from wlk_smart_turn.engine.model import TURN_SAMPLES, features

transformers = pytest.importorskip("transformers", reason="its features are compared")


@pytest.mark.parametrize("seconds", [8.0, 2.5, 0.0])
def test_features_are_those_of_the_reference(noise, seconds):
    """They agree to 1e-4, even if zeros precede a short turn."""
    audio = np.zeros(TURN_SAMPLES, dtype=np.float32)
    count = round(16_000 * seconds)
    audio[TURN_SAMPLES - count :] = noise[:count]
    extract = transformers.WhisperFeatureExtractor(chunk_length=8)
    expected = extract(
        audio, sampling_rate=16_000, do_normalize=True, return_tensors="np"
    ).input_features[0]
    found = features(audio)

    assert (found.shape, found.dtype) == ((80, 800), np.float32)
    assert np.abs(expected - found).max() < 1e-4
