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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "truncated"),
        ("[]", "Expected `object`, got `array`"),
        ('{"compute_type": "int8"}', "Invalid enum value 'int8' - at `$.compute_type`"),
        ('{"languages": "en"}', "`array | null`, got `str` - at `$.languages`"),
        ('{"languages": ["tlh"]}', "at `$.languages[0]`"),
        ('{"languages": []}', "of length >= 1 - at `$.languages`"),
        ('{"buffer_seconds": NaN}', "malformed"),
        ('{"buffer_seconds": 60}', "`float` <= 25.0 - at `$.buffer_seconds`"),
    ],
)
def test_an_invalid_setting_is_reported_in_one_line(tmp_path, content, message):
    """The line contains the name of the file; no setting is dropped in silence."""
    (tmp_path / "wlk.json").write_text(content, encoding="utf-8")

    with pytest.raises(ModelNotFoundError, match=r"wlk\.json is (damaged|invalid): ") as caught:
        Checkpoint.read(tmp_path, name="own")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
