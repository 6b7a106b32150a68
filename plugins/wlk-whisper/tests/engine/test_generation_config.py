"""The entries of generation_config.json."""

from __future__ import annotations

import json

import pytest

from wlk_core import ModelNotFoundError
from wlk_whisper.engine.generation_config import GenerationConfig


def test_a_directory_without_the_file_has_an_empty_config(tmp_path):
    """Most checkpoints of other formats have no such file."""
    assert GenerationConfig() == GenerationConfig.read(tmp_path)


def test_heads_and_first_tokens_are_read(tmp_path):
    """An empty list of tokens differs from no list: a text may begin with anything."""
    table = {"alignment_heads": [[2, 1], [3, 0]], "begin_suppress_tokens": [], "task": "ignored"}
    (tmp_path / "generation_config.json").write_text(json.dumps(table), encoding="utf-8")
    expected = GenerationConfig(alignment_heads=((2, 1), (3, 0)), begin_suppress_tokens=())

    assert expected == GenerationConfig.read(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"alignment_heads": [2, 1]}', '{"alignment_heads": [[1]]}',
     '{"alignment_heads": {"2": 1}}', '{"begin_suppress_tokens": ["x"]}',
     '{"begin_suppress_tokens": 220}'],
)  # fmt: skip
def test_an_invalid_file_is_named(tmp_path, text):
    """An invalid file never counts as a missing one."""
    (tmp_path / "generation_config.json").write_text(text, encoding="utf-8")

    with pytest.raises(ModelNotFoundError, match=r"generation_config\.json is (damaged|invalid)"):
        GenerationConfig.read(tmp_path)
