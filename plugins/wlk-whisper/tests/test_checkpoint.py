"""The settings of a checkpoint, and the requests that they refuse."""

from __future__ import annotations

import json

import pytest

from wlk_core import OptionError
from wlk_whisper.checkpoint import Checkpoint


def test_a_directory_without_settings_has_no_limits(tmp_path):
    """Most checkpoints have no wlk.json."""
    assert Checkpoint(name="small") == Checkpoint.read(tmp_path, name="small")


def test_settings_are_read_from_the_directory_or_its_parent(tmp_path):
    """One file beside several formats serves them all; a format's own file comes first."""
    inner = tmp_path / "format"
    inner.mkdir()
    outer_table = {"languages": ["en"], "shorter_input": True}
    (tmp_path / "wlk.json").write_text(json.dumps(outer_table), encoding="utf-8")
    outer = Checkpoint.read(inner, name="mine")
    (inner / "wlk.json").write_text(json.dumps({"buffer_seconds": 6.0}), encoding="utf-8")

    assert Checkpoint(name="mine", languages=("en",), takes_shorter_input=True) == outer
    assert Checkpoint(name="mine", buffer_seconds=6.0) == Checkpoint.read(inner, name="mine")


def test_a_language_without_a_token_is_refused(backend):
    """A multilingual model from before large-v3 has no token for Cantonese."""
    hf_tokenizer = backend._open().model.hf_tokenizer
    model = {"is_multilingual": True, "hf_tokenizer": hf_tokenizer}
    checkpoint = Checkpoint(name="small")

    checkpoint.check(language="fr", task="translate", **model)
    with pytest.raises(OptionError, match="the model small has no token for the language 'yue'"):
        checkpoint.check(language="yue", task="transcribe", **model)
