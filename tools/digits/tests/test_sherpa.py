"""The encoder of the transducer for sherpa-onnx."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install torch")
pytest.importorskip("kaldi_native_fbank", reason="pip install kaldi-native-fbank")

from train_sherpa import (  # noqa: E402 - after the skips
    CHUNK_FRAMES,
    WINDOW_FRAMES,
    Transducer,
    fbank,
    scaled,
)


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
