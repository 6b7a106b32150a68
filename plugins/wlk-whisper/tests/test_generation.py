"""What a generation_config.json is read for."""

from __future__ import annotations

import json

import pytest

from wlk_core import ModelNotFoundError
from wlk_whisper.generation import Generation


def test_a_directory_without_the_file_says_nothing(tmp_path):
    """Most checkpoints of other formats have none."""
    assert Generation() == Generation.read(tmp_path)


def test_heads_and_first_tokens_are_read(tmp_path):
    """An empty list of tokens is a statement: a text may begin with anything."""
    told = {"alignment_heads": [[2, 1], [3, 0]], "begin_suppress_tokens": [], "task": "ignored"}
    (tmp_path / "generation_config.json").write_text(json.dumps(told), encoding="utf-8")

    assert Generation(heads=((2, 1), (3, 0)), begin_suppressed=()) == Generation.read(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"alignment_heads": [2, 1]}', '{"alignment_heads": [[1]]}',
     '{"begin_suppress_tokens": ["x"]}'],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_named(tmp_path, text):
    """A broken file is never taken for a silent one."""
    (tmp_path / "generation_config.json").write_text(text, encoding="utf-8")

    with pytest.raises(ModelNotFoundError, match=r"generation_config\.json cannot be read"):
        Generation.read(tmp_path)
