"""The parts that need torch: a step of training, decoding, and the exported directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batches_qwen3 import draw_text_batch
from features_qwen3 import count_tokens, normalise, raw_log_mel
from mixing import Mixer
import numpy as np
import pytest
from vocabulary_qwen3 import FULL_IDS, NAMES, PAD, SUFFIX, header, prefix

if TYPE_CHECKING:
    from pathlib import Path

    from recordings import Voice

torch = pytest.importorskip("torch", reason="training needs torch")
transformers = pytest.importorskip(
    "transformers", minversion="5.13", reason="the architecture is transformers'"
)

from export_qwen3 import write_checkpoint  # noqa: E402  # after the skip
from losses_qwen3 import Hints, measure  # noqa: E402  # as above
from model_qwen3 import Qwen3Shape, build_model  # noqa: E402  # as above

pytestmark = pytest.mark.slow

KEYS = {
    r"^thinker\.model\.": "model.language_model.",
    r"^thinker\.audio_tower\.proj([12])\.": r"model.multi_modal_projector.linear_\1.",
    r"^thinker\.audio_tower\.": "model.audio_tower.",
}


@pytest.fixture
def model() -> transformers.Qwen3ASRForConditionalGeneration:
    """Return a model with the weights that training starts from."""
    torch.manual_seed(0)
    return build_model(Qwen3Shape())


def test_features_are_those_of_transformers() -> None:
    """Mirrored at the ends, floored below the loudest bin."""
    audio = np.random.default_rng(0).normal(size=20_011).astype(np.float32)
    audio[5000:9000] *= 1e-4
    extractor = transformers.Qwen3ASRFeatureExtractor()
    output = extractor(audio, sampling_rate=16_000, padding=True, return_attention_mask=True)
    ours = normalise(raw_log_mel(audio))
    frames = int(output["attention_mask"].sum())

    assert ours.shape[1] == frames
    np.testing.assert_allclose(output["input_features"][0, :, :frames], ours, atol=1e-4)


def test_steps_lower_every_loss(model: torch.nn.Module, voice: Voice) -> None:
    """Gradients reach the text, the attention and the digits of the audio."""
    batch = draw_text_batch(Mixer(voices=[voice], rng=np.random.default_rng(3)), 2.0, 4)
    model.train()
    hints = Hints(96, 96)
    optimizer = torch.optim.Adam([*model.parameters(), *hints.parameters()], lr=3e-3)
    history = []
    for _ in range(8):
        loss, figures = measure(model, hints, batch, 1.0)
        history.append(figures)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    for name in ("text", "look", "digits", "latest", "counts"):
        assert history[-1][name] < history[0][name], name


def test_the_exported_directory_is_the_model(model: torch.nn.Module, tmp_path: Path) -> None:
    """Every key is there, and the logits of the tokens in use are the same."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.half())
    write_checkpoint(model.eval(), tmp_path)
    exported, output = transformers.Qwen3ASRForConditionalGeneration.from_pretrained(
        tmp_path, key_mapping=KEYS, dtype=torch.float32, output_loading_info=True
    )
    audio = np.random.default_rng(1).normal(size=25_000).astype(np.float32)
    mel = normalise(raw_log_mel(audio))
    features = torch.from_numpy(np.pad(mel, ((0, 0), (0, -mel.shape[1] % 100))))[None]
    mask = (torch.arange(features.shape[-1]) < mel.shape[1])[None].long()
    ids = [*prefix(), *[PAD] * count_tokens(mel.shape[1]), *SUFFIX, *header(NAMES[0])]
    full = [FULL_IDS[number] for number in ids]
    with torch.no_grad():
        rows = [
            network(torch.tensor([row]), input_features=features, input_features_mask=mask).logits[
                0
            ]
            for network, row in ((model, ids), (exported.eval(), full))
        ]

    assert not any(output[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    torch.testing.assert_close(rows[0][:, :-1], rows[1][:, list(FULL_IDS)], atol=1e-5, rtol=1e-5)


def test_transformers_builds_the_same_turns(model: torch.nn.Module, tmp_path: Path) -> None:
    """Its processor reads the tokenizer and the template of the directory."""
    write_checkpoint(model, tmp_path)
    processor = transformers.AutoProcessor.from_pretrained(tmp_path)
    audio = np.zeros(16_000, np.float32)
    request = processor.apply_transcription_request(audio=audio, language="en", prompt="nine zero")
    turns = [*prefix((19, 0)), *[PAD] * 13, *SUFFIX, *header(NAMES[0])]

    assert request["input_ids"][0].tolist() == [FULL_IDS[number] for number in turns]
