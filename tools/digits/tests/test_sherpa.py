"""The transducer for sherpa-onnx: its alignment, and its encoder in steps."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install torch")
pytest.importorskip("kaldi_native_fbank", reason="pip install kaldi-native-fbank")

from mixing import Mixture, Word  # noqa: E402 - after the skips
from train_sherpa import (  # noqa: E402 - after the skips
    CHUNK_FRAMES,
    IGNORED,
    TOKENS,
    WINDOW_FRAMES,
    Transducer,
    align,
    fbank,
    scaled,
)

WORDS = (Word(digit=7, start=0.2, end=0.6), Word(digit=6, start=0.65, end=0.9))
MIXTURE = Mixture(audio=np.zeros(32_000, np.float32), words=WORDS)


def test_tokens_are_emitted_about_when_they_are_due(monkeypatch):
    """A token stays the target until it is emitted, or a model that missed it never emits it."""
    monkeypatch.setattr("train_sherpa.happens", lambda *_: False)  # no spurious and no wrong tokens
    for seed in range(50):
        contexts, tokens = align(MIXTURE, 45, np.random.default_rng(seed))
        # A token is emitted in the last frame before it is in the context.
        frames = np.flatnonzero((contexts[1:] != contexts[:-1]).any(axis=1))
        emitted = [TOKENS[contexts[frame + 1, 1]] for frame in frames]
        late = tokens[6 : frames[0] + 1]

        assert ["▁", "se", "ven", "▁", "six"] == emitted
        assert np.all(frames - [6, 13, 14, 17, 20] >= -1)
        assert np.all(frames - [6, 13, 14, 17, 20] <= 7)  # five, and those of a late one before
        assert np.all((late == TOKENS.index("▁")) | (late == IGNORED))


def test_the_encoder_in_steps_equals_one_pass():
    """Each step sees the frames of its window and the states of the LSTM."""
    torch.manual_seed(0)
    model = Transducer().eval()
    audio = np.random.default_rng(0).standard_normal(48_000).astype(np.float32)
    mel = torch.from_numpy(scaled(fbank(0.1 * audio)))[None]
    zeros = torch.zeros(model.layers, 1, model.size)
    with torch.no_grad():
        whole, _, _ = model.encode(mel[:, : 4 * 68 + 11], zeros, zeros)
        steps, h, c = [], zeros, zeros
        for first in range(0, 4 * 68, CHUNK_FRAMES):
            step, h, c = model.encode(mel[:, first : first + WINDOW_FRAMES], h, c)
            steps.append(step)

    torch.testing.assert_close(torch.cat(steps, dim=1), whole, atol=1e-5, rtol=0)
