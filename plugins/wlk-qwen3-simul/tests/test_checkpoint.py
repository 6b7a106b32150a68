"""What lies beside the weights is kept to, or told to be wrong."""

from __future__ import annotations

import json

import pytest

from wlk_core import ModelNotFoundError
from wlk_qwen3_simul.checkpoint import Checkpoint


def test_a_checkpoint_says_what_it_wants(tmp_path):
    """Languages, arithmetic and the length of its buffer."""
    told = {"languages": ["en", "de"], "compute_type": "bfloat16", "buffer_seconds": 16}
    (tmp_path / "wlk.json").write_text(json.dumps(told), encoding="utf-8")
    found = Checkpoint.read(tmp_path, name="own")

    assert ("en", "de") == found.languages
    assert "bfloat16" == found.compute_type
    assert 16.0 == found.buffer_seconds


def test_nothing_is_required(tmp_path):
    """The published ones say nothing."""
    assert Checkpoint(name="own") == Checkpoint.read(tmp_path, name="own")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "Expecting property name"),
        ("\xff", "Expecting value"),
        ("[]", "list"),
        ('{"compute_type": "int8"}', "one of auto, float32, float16, bfloat16, got 'int8'"),
        ('{"compute_type": ["float32"]}', "one of auto"),
        ('{"languages": "en"}', "a list of codes"),
        ('{"languages": ["tlh"]}', "a list of codes"),
        ('{"languages": [["en"]]}', "unhashable"),
        ('{"languages": []}', "a list of codes"),
        ('{"buffer_seconds": "long"}', "from 8 to 25"),
        ('{"buffer_seconds": true}', "from 8 to 25"),
        ('{"buffer_seconds": NaN}', "from 8 to 25"),
        ('{"buffer_seconds": 60}', "from 8 to 25"),
    ],
)
def test_what_cannot_be_kept_to_is_told_in_one_line(tmp_path, content, message):
    """With the name of the file; nothing of it is dropped in silence."""
    (tmp_path / "wlk.json").write_text(content, encoding="utf-8")

    with pytest.raises(ModelNotFoundError, match=r"wlk\.json cannot be read") as caught:
        Checkpoint.read(tmp_path, name="own")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
