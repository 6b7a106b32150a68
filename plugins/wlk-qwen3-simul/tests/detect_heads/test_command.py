"""The command that finds heads reads a model and a manifest, and writes a file that loads."""

from __future__ import annotations

import json
import wave

import numpy as np
import pytest

from wlk_conformance.testing import load_clip
from wlk_qwen3_simul.checkpoint import BUNDLED
from wlk_qwen3_simul.detect_heads.command import main
from wlk_qwen3_simul.engine.alignment_heads import HEADS_FILE, AlignmentHeads
from wlk_qwen3_simul.engine.vocabulary import Vocabulary

torch = pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")

# Imported after the lines that skip this module where there is no torch.
from wlk_qwen3_simul.detect_heads.clips import AllHeads  # noqa: E402
from wlk_qwen3_simul.torch.attention import ATTENTION_NAME  # noqa: E402
from wlk_qwen3_simul.torch.checkpoint import load_model  # noqa: E402

CLIPS = ("fast", "low", "slow")


def write_clip(folder, name):
    """Write a clip as a file, and return its name."""
    with wave.open(str(folder / f"{name}.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes((load_clip(name).audio * 32767).astype("<i2").tobytes())
    return f"{name}.wav"


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    """Return a manifest of some of the clips that come with wlk-core."""
    folder = tmp_path_factory.mktemp("clips")
    lines = [
        json.dumps(
            {
                "audio": write_clip(folder, name),
                "words": [
                    {"text": word.text, "start": word.start, "end": word.end}
                    for word in load_clip(name).words
                ],
            }
        )
        for name in CLIPS
    ]
    path = folder / "clips.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def all_heads(checkpoint):
    """Return the tiny model with all of its heads captured."""
    model = load_model(checkpoint, device=torch.device("cpu"), dtype=torch.float32)
    return AllHeads(model, Vocabulary.read(checkpoint))


def test_all_heads_are_captured_at_every_step_of_the_text(all_heads):
    """The weights are those of transformers' eager attention, normalised over the audio alone."""
    audio = np.random.default_rng(0).normal(size=30_000).astype(np.float32)
    text = [65, 66, 67]
    captured = all_heads.attend(audio, text, language="en")

    assert (2, 4, 4, 24) == captured.shape
    np.testing.assert_allclose(captured.sum(axis=-1), 1, atol=1e-5)
    model = all_heads._model
    prompt = all_heads._prompt
    encoded = all_heads._encode(audio)
    embed = model.model.language_model.embed_tokens
    forced = (*prompt.after_audio, *prompt.header("en"), *text)
    with torch.inference_mode():
        before, after = (embed(torch.tensor(ids)) for ids in (prompt.before_audio, forced))
        model.set_attn_implementation({"text_config": "eager"})
        try:
            output = model.model.language_model(
                inputs_embeds=torch.cat([before, encoded, after])[None], output_attentions=True
            )
        finally:
            model.set_attn_implementation({"text_config": ATTENTION_NAME})
    first = len(prompt.before_audio)
    eager = torch.stack(output.attentions)[:, 0, :, -4:, first : first + len(encoded)]
    eager = eager / eager.sum(dim=-1, keepdim=True)
    np.testing.assert_allclose(eager.numpy(), captured, atol=1e-5)


def test_random_weights_have_no_alignment_heads(checkpoint, manifest, tmp_path, capsys):
    """The command reports that in one line, and writes nothing."""
    output = tmp_path / "heads.json"

    assert 1 == main([str(checkpoint), "--manifest", str(manifest), "--output", str(output)])
    errors = capsys.readouterr().err
    assert "no head of" in errors
    assert 1 == errors.count("\n")
    assert not output.exists()


def test_a_clip_shorter_than_its_words_is_refused(checkpoint, tmp_path, capsys):
    """Times of another recording would find wrong heads."""
    words = [{"text": "zero", "start": 500.0, "end": 501.0}]
    line = json.dumps({"audio": write_clip(tmp_path, "fast"), "words": words})
    path = tmp_path / "clips.jsonl"
    path.write_text(line, encoding="utf-8")

    assert 1 == main([str(checkpoint), "--manifest", str(path), "--output", str(tmp_path / "x")])
    assert "ends at 501 s" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_finds_the_heads_that_the_digits_ship_with(manifest, tmp_path, capsys):
    """Clips of other voices give the same row, and heads that include the best ones."""
    output = tmp_path / "heads.json"
    shipped = AlignmentHeads.from_json((BUNDLED["digits"] / HEADS_FILE).read_bytes(), name="")

    assert 0 == main(["digits", "--manifest", str(manifest), "--output", str(output)])
    heads = AlignmentHeads.from_json(output.read_bytes(), name="")
    assert heads.to_json() == capsys.readouterr().out
    assert shipped.row == heads.row == "predict"
    assert set(heads.pairs) & set(shipped.pairs)
    assert heads.best[0].score > 0.6
