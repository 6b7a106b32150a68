"""What training a Nemotron shares with streams: the features and the tokenizer."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install torch")
pytest.importorskip(
    "transformers.models.nemotron3_5_asr", reason="pip install 'transformers>=5.23'"
)

import train_nemotron as training  # noqa: E402 -- it imports torch


def test_the_features_are_those_of_the_extractor(monkeypatch):
    """Apart from disturbances, training sees the features of a stream."""
    monkeypatch.setattr(training, "disturb", lambda features, _rng: features)
    audio = 0.1 * np.random.default_rng(0).standard_normal(8000).astype(np.float32)
    padded = np.pad(audio, (0, 8000))
    expected = training._EXTRACTOR(padded, sampling_rate=16_000, return_tensors="np")

    ours = training._features(audio, 9, np.random.default_rng(0))
    np.testing.assert_allclose(expected.input_features[0, :65], ours, atol=5e-3)


def test_the_tokenizer_writes_the_labels():
    """Transformers' own tokenizer divides words as the training does."""
    tokenizer = training.new_processor().tokenizer

    assert tokenizer("seven one").input_ids == [*training.WORD_IDS[7], *training.WORD_IDS[1]]
