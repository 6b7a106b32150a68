"""What the plugin declares, and what it refuses."""

from __future__ import annotations

import ast
from pathlib import Path
import subprocess
import sys

import pytest

from wlk_core import (
    AudioFormatError,
    ModelNotFoundError,
    OptionError,
    StreamClosed,
    load_backend,
)
import wlk_whisper
from wlk_whisper.checkpoint import Checkpoint
from wlk_whisper.plugin import wlk_backends
from wlk_whisper.specs.faster import FASTER_WHISPER

ALLOWED = {"wlk_core", "wlk_core.errors", "wlk_core.streaming", "wlk_core.audio", "wlk_core.models"}


def test_the_plugin_offers_the_backend():
    """The hook returns constant data."""
    assert FASTER_WHISPER in wlk_backends()
    assert list(wlk_backends()) == list(wlk_backends())
    assert FASTER_WHISPER.default_model in FASTER_WHISPER.models
    assert FASTER_WHISPER.default_model != "digits"


@pytest.mark.slow
def test_importing_the_plugin_brings_nothing_heavy():
    """Listing backends must not cost a framework."""
    heavy = ("numpy", "ctranslate2", "faster_whisper", "huggingface_hub")
    code = f"import sys, wlk_whisper.plugin; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == done.stdout.strip()


def test_the_plugin_imports_only_what_the_core_offers():
    """Registry, session and command line are none of a plugin's business."""
    for path in Path(wlk_whisper.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            if module.startswith("wlk_core"):
                assert module in ALLOWED, path


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"language": "fr"}, "hears en only"),
        ({"language": "xx"}, "does not support the language 'xx'"),
        ({"language": "en-US"}, "does not support the language"),
        ({"task": "translate"}, "choose a multilingual model to translate"),
        ({"task": "sing"}, "cannot do the task 'sing'"),
        ({"policy": "alignatt"}, "one of local-agreement"),
        ({"beam_size": 0}, "between 1 and 16"),
        ({"beam": 3}, "did you mean beam_size"),
        ({"device": "cpu"}, "given to load_backend"),
        ({"lora": "x"}, "no option is called 'lora'"),
    ],
)
def test_a_stream_refuses_what_it_cannot_do(backend, asked, told):
    """Nothing the user says is dropped in silence."""
    with pytest.raises(OptionError, match=told):
        backend.create_processor(**asked)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"device": "tpu"}, "one of auto, cpu, cuda"),
        ({"compute_type": "float16"}, "cannot run on cpu here"),
        ({"cpu_threads": "many"}, "is an int"),
    ],
)
def test_loading_refuses_what_it_cannot_do(asked, told):
    """A wrong option says what would be right."""
    with pytest.raises(OptionError, match=told):
        load_backend("faster-whisper", "digits", **{"device": "cpu", **asked})


def test_a_directory_without_a_model_is_named(tmp_path):
    """The message says what was expected and how to make it."""
    (tmp_path / "config.json").write_text("{}")

    with pytest.raises(ModelNotFoundError, match="ct2-transformers-converter"):
        load_backend("faster-whisper", str(tmp_path))


def test_a_damaged_model_is_named(tmp_path):
    """What the engine cannot read is an error in one line."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.bin").write_bytes(b"nothing of the kind")

    with pytest.raises(ModelNotFoundError, match="could not be loaded"):
        load_backend("faster-whisper", str(tmp_path))


def test_the_digits_checkpoint_runs_in_float32(backend):
    """int8 costs a small model its accuracy: the checkpoint asks for float32 and gets it."""
    assert "float32" == backend.compute_type


def test_a_closed_backend_refuses_streams():
    """Streams that are open keep the model; new ones are refused."""
    closed = load_backend("faster-whisper", "digits")
    stream = closed.create_processor()
    closed.close()

    with pytest.raises(StreamClosed):
        closed.create_processor()
    with pytest.raises(AudioFormatError):
        stream.insert_audio_chunk("not audio")


def test_a_language_the_decoder_cannot_be_told_is_refused(backend):
    """A multilingual model from before large-v3 has no token for Cantonese."""
    vocabulary = backend._open().model.hf_tokenizer
    anyone = Checkpoint(name="small")

    anyone.check(language="fr", task="translate", is_multilingual=True, vocabulary=vocabulary)
    with pytest.raises(OptionError, match="the model small has no token for the language 'yue'"):
        anyone.check(language="yue", task="transcribe", is_multilingual=True, vocabulary=vocabulary)
