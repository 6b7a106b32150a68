"""Checkpoints and requests that cannot work are refused in one line that gives the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from wlk_core import load_backend
from wlk_core.errors import ModelNotFoundError, OptionError

from .conftest import MODELS

FORMATS = {
    "faster-whisper": ("tiny.en", "model.bin"),
    "whisper": ("tiny.en-transformers", "model.safetensors"),
    "mlx-whisper": ("tiny.en-transformers", "model.safetensors"),
}


def line_of(raised):
    """Return the message of an error, which must be one line."""
    (line,) = str(raised.value).splitlines()
    return line


@pytest.mark.parametrize("backend", FORMATS)
def test_truncated_weights_are_refused(backend, tmp_path):
    """The error for half a download names a tensor that lies outside the file."""
    model, weights = FORMATS[backend]
    for path in (MODELS / model).iterdir():
        (tmp_path / path.name).symlink_to(path.resolve())
    (tmp_path / weights).unlink()
    whole = (MODELS / model / weights).read_bytes()
    (tmp_path / weights).write_bytes(whole[: len(whole) // 2])

    with pytest.raises(ModelNotFoundError) as raised:
        load_backend(backend, str(tmp_path))
    assert "lies outside the file" in line_of(raised)


@pytest.mark.parametrize("backend", FORMATS)
def test_a_checkpoint_of_another_family_or_format_is_refused(backend):
    """Qwen3-ASR is not Whisper, and CTranslate2's files are not those of transformers."""
    package = pytest.importorskip("wlk_qwen3_simul")
    other = "tiny.en-transformers" if FORMATS[backend][0] == "tiny.en" else "tiny.en"

    for folder in (Path(package.__file__).with_name("digits"), MODELS / other):
        with pytest.raises(ModelNotFoundError) as raised:
            load_backend(backend, str(folder))
        assert str(folder) in line_of(raised)


def test_float16_without_a_gpu_is_refused():
    """The error names the types that this machine can compute, although the weights are float16."""
    with pytest.raises(OptionError) as raised:
        load_backend("faster-whisper", str(MODELS / "tiny.en"), device="cpu", dtype="float16")
    assert "dtype=float16 cannot run on cpu here; expected one of: " in line_of(raised)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"language": "de"}, "recognises en only, not 'de'"),
        ({"task": "translate"}, "was trained to transcribe only"),
    ],
    ids=["language", "task"],
)
@pytest.mark.parametrize("backend", FORMATS)
def test_a_model_for_english_refuses_the_rest(backend, request_, message):
    """A language or a task that the model lacks is refused when the stream is created."""
    model, _ = FORMATS[backend]
    with load_backend(backend, str(MODELS / model), dtype="float32") as loaded:
        with pytest.raises(OptionError) as raised:
            loaded.create_processor(**request_)
        assert message in line_of(raised)
