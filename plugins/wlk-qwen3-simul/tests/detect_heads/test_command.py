"""The command that finds heads reads a model and a manifest, and writes a valid heads file."""

from __future__ import annotations

import json
import wave

import pytest

from wlk_conformance.testing import load_clip
from wlk_qwen3_simul.checkpoint import BUNDLED
from wlk_qwen3_simul.detect_heads.__main__ import main
from wlk_qwen3_simul.engine.alignment_heads import HEADS_FILE, AlignmentHeads

pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")

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
    """Return a manifest of some of the clips in wlk-core."""
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


def failure(capsys, *arguments):
    """Run the command, which has to fail, and return the line that it prints."""
    assert main([str(argument) for argument in arguments]) == 1
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    return errors


def test_random_weights_have_no_alignment_heads(checkpoint, manifest, tmp_path, capsys):
    """The command reports the fault in one line, and writes nothing."""
    output = tmp_path / "heads.json"

    assert "no head of" in failure(capsys, checkpoint, "--manifest", manifest, "--output", output)
    assert not output.exists()


def test_a_clip_shorter_than_its_words_is_refused(checkpoint, tmp_path, capsys):
    """Word times of another recording would lead to wrong heads."""
    words = [{"text": "zero", "start": 500.0, "end": 501.0}]
    path = tmp_path / "clips.jsonl"
    line = {"audio": write_clip(tmp_path, "fast"), "words": words}
    path.write_text(json.dumps(line), encoding="utf-8")

    errors = failure(capsys, checkpoint, "--manifest", path, "--output", tmp_path / "heads.json")
    assert "ends at 501 s" in errors


def test_a_device_that_no_backend_takes_is_refused(checkpoint, manifest, tmp_path, capsys):
    """The choices are those of the backend's own option."""
    output = ("--output", tmp_path / "heads.json")
    errors = failure(capsys, checkpoint, "--manifest", manifest, *output, "--device", "cuda:x")

    assert "device must be one of auto, cpu, cuda, cuda:N, mps; got 'cuda:x'" in errors


@pytest.mark.slow
def test_the_command_finds_the_heads_that_the_digits_ship_with(manifest, tmp_path, capsys):
    """Clips of other voices lead to the same row, and to heads that include the best ones."""
    output = tmp_path / "heads.json"
    shipped = AlignmentHeads.from_json((BUNDLED["digits"] / HEADS_FILE).read_bytes(), name="")

    assert main(["digits", "--manifest", str(manifest), "--output", str(output)]) == 0
    heads = AlignmentHeads.from_json(output.read_bytes(), name="")
    assert capsys.readouterr().out == heads.to_json()
    assert shipped.row == heads.row == "predict"
    assert set(heads.pairs) & set(shipped.pairs)
    assert heads.best[0].score > 0.6
