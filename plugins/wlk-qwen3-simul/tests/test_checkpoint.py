"""The settings in wlk.json are kept to, or refused with what is wrong."""

from __future__ import annotations

import json

import pytest

from wlk_core import ModelNotFoundError
from wlk_qwen3_simul.checkpoint import Checkpoint


def test_a_checkpoint_declares_its_settings(tmp_path):
    """They are its languages, its number format and its buffer length."""
    table = {"languages": ["en", "de"], "compute_type": "bfloat16", "buffer_seconds": 16}
    (tmp_path / "wlk.json").write_text(json.dumps(table), encoding="utf-8")
    checkpoint = Checkpoint.read(tmp_path, name="own")

    assert ("en", "de") == checkpoint.languages
    assert "bfloat16" == checkpoint.compute_type
    assert 16.0 == checkpoint.buffer_seconds


def test_nothing_is_required(tmp_path):
    """The published models have no wlk.json."""
    assert Checkpoint(name="own") == Checkpoint.read(tmp_path, name="own")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "Expecting property name"),
        ("\xff", "Expecting value"),
        ("[]", "expected a table"),
        ('{"compute_type": "int8"}', "one of auto, float32, float16, bfloat16, got 'int8'"),
        ('{"compute_type": ["float32"]}', "one of auto"),
        ('{"languages": "en"}', "a list of codes"),
        ('{"languages": ["tlh"]}', "a list of codes"),
        ('{"languages": [["en"]]}', "a list of codes"),
        ('{"languages": []}', "a list of codes"),
        ('{"buffer_seconds": "long"}', "from 8 to 25"),
        ('{"buffer_seconds": true}', "from 8 to 25"),
        ('{"buffer_seconds": NaN}', "NaN is no number of JSON"),
        ('{"buffer_seconds": 60}', "from 8 to 25"),
    ],
)
def test_an_invalid_setting_is_reported_in_one_line(tmp_path, content, message):
    """The line contains the name of the file; no setting is dropped in silence."""
    (tmp_path / "wlk.json").write_text(content, encoding="utf-8")

    with pytest.raises(ModelNotFoundError, match=r"wlk\.json is (damaged|invalid): ") as caught:
        Checkpoint.read(tmp_path, name="own")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
