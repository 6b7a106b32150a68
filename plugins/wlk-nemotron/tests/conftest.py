"""The digits model, loaded once, and a model with random weights that emits many tokens."""

from __future__ import annotations

import pytest
import torch
from transformers import Nemotron3_5AsrForRNNT, NemotronAsrStreamingFeatureExtractor

from wlk_conformance.testing import load_clip
from wlk_core import load_backend
from wlk_nemotron.torch.network import NemotronEngine

SECONDS = 9  # four times the attention window


@pytest.fixture(scope="session", autouse=True)
def _single_thread():
    """Limit torch to one thread, because tests run in parallel."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def backend(_single_thread):
    """Return nemotron with the bundled checkpoint."""
    with load_backend("nemotron", "digits") as loaded:
        yield loaded


@pytest.fixture(scope="session")
def audio():
    """Return spoken digits."""
    return load_clip("demo").audio[: SECONDS * 16_000]


@pytest.fixture(scope="session")
def random_engine(backend, audio):
    """
    Return an engine with random weights that emits several tokens per frame, different in each.

    The audio dominates, so that an error in any cache changes the tokens.
    """
    engine = backend.engine
    extractor = NemotronAsrStreamingFeatureExtractor(feature_size=80)
    mel = extractor(audio, sampling_rate=16_000, return_tensors="pt").input_features
    generator = torch.Generator().manual_seed(3)
    model = Nemotron3_5AsrForRNNT(engine.model.config).eval().requires_grad_(False)
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            weight.normal_(0, 0.3 if "bias_" in name else weight[0].numel() ** -0.5,
                           generator=generator)  # fmt: skip
    frames = model.get_audio_features(mel, prompt_ids=torch.zeros(1, dtype=torch.long),
                                      num_lookahead_tokens=1).pooler_output[0]  # fmt: skip
    projector = model.encoder_projector
    gain = 4 / frames.std(0).mean()
    projector.bias.copy_(gain * (projector.bias - frames.mean(0)))
    projector.weight.mul_(gain)
    model.joint.head.weight.mul_(3)
    model.joint.head.bias[model.config.blank_token_id] += 6
    model.generation_config.decoder_start_token_id = model.config.blank_token_id
    model.config.max_symbols_per_step = model.max_symbols_per_step = 4
    return NemotronEngine(model, extractor, engine.checkpoint)
