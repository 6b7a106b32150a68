"""The command that finds heads: a directory and a manifest in, a file that loads out."""

from __future__ import annotations

import json
import wave

import numpy as np
import pytest

from wlk_core import OptionError
from wlk_core.testing import load_clip
from wlk_qwen3_simul.alignment_heads import FILE, load_heads
from wlk_qwen3_simul.detect.manifest import read_manifest
from wlk_qwen3_simul.detect.scores import token_seconds
from wlk_qwen3_simul.detect_heads import detect, main
from wlk_qwen3_simul.loading import BUNDLED

torch = pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")

# Behind what skips where there is no torch.
from wlk_qwen3_simul.detect.forward import AllHeads  # noqa: E402
from wlk_qwen3_simul.text.vocabulary import Vocabulary  # noqa: E402
from wlk_qwen3_simul.torch_attention import NAME  # noqa: E402
from wlk_qwen3_simul.torch_checkpoint import load_model  # noqa: E402

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
def every(checkpoint):
    """Return the tiny model, asked where all of its heads look."""
    model = load_model(checkpoint, device=torch.device("cpu"), dtype=torch.float32)
    return AllHeads(model, Vocabulary.read(checkpoint))


def test_all_heads_are_seen_at_every_row_of_the_text(every):
    """As transformers' own slow attention has it, shared out over the audio alone."""
    audio = np.random.default_rng(0).normal(size=30_000).astype(np.float32)
    text = [65, 66, 67]
    found = every.attend(audio, text, language="en")

    assert (2, 4, 4, 24) == found.shape
    np.testing.assert_allclose(found.sum(axis=-1), 1, atol=1e-5)
    model = every._model
    prompt = every._prompt
    heard = every._encode(audio)
    embed = model.model.language_model.embed_tokens
    told = (*prompt.after, *prompt.header("en"), *text)
    with torch.inference_mode():
        before, after = (embed(torch.tensor(ids)) for ids in (prompt.before, told))
        model.set_attn_implementation({"text_config": "eager"})
        try:
            passed = model.model.language_model(
                inputs_embeds=torch.cat([before, heard, after])[None], output_attentions=True
            )
        finally:
            model.set_attn_implementation({"text_config": NAME})
    first = len(prompt.before)
    slow = torch.stack(passed.attentions)[:, 0, :, -4:, first : first + len(heard)]
    slow = slow / slow.sum(dim=-1, keepdim=True)
    np.testing.assert_allclose(slow.numpy(), found, atol=1e-5)


def test_long_clips_have_the_tokens_of_all_their_windows(every):
    """Each of 8 s, and what is left."""
    audio = np.random.default_rng(0).normal(size=16_000 * 9).astype(np.float32)
    found = every.attend(audio, [65], language="en")

    assert 9 * 13 == found.shape[-1]
    assert 9.0 == token_seconds(found.shape[-1])[-1, 1]


def test_random_weights_have_no_alignment_heads(checkpoint, manifest, tmp_path, capsys):
    """The command says so in one line, and writes nothing."""
    output = tmp_path / "heads.json"

    assert 1 == main([str(checkpoint), "--manifest", str(manifest), "--output", str(output)])
    told = capsys.readouterr().err
    assert "no head of" in told
    assert 1 == told.count("\n")
    assert not output.exists()


def test_a_clip_shorter_than_its_words_is_refused(checkpoint, manifest, tmp_path):
    """Times of another recording would find wrong heads."""
    words = [{"text": "zero", "start": 500.0, "end": 501.0}]
    line = json.dumps({"audio": write_clip(tmp_path, "fast"), "words": words})
    path = tmp_path / "clips.jsonl"
    path.write_text(line, encoding="utf-8")

    with pytest.raises(OptionError, match=r"fast\.wav is .* s long.*ends at 501 s"):
        detect(str(checkpoint), read_manifest(path))


@pytest.mark.slow
def test_the_command_finds_the_heads_that_the_digits_ship_with(manifest, tmp_path, capsys):
    """Other voices and other clips: the same row, and the best heads among them."""
    output = tmp_path / "heads.json"
    shipped = load_heads(BUNDLED["digits"] / FILE, layers=4, heads=4)

    assert 0 == main(["digits", "--manifest", str(manifest), "--output", str(output)])
    found = load_heads(output, layers=4, heads=4)
    assert found.to_json() == capsys.readouterr().out
    assert shipped.row == found.row == "predict"
    assert set(found.pairs) & set(shipped.pairs)
    assert found.best[0].score > 0.6
