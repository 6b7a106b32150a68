"""The JSON files that lie beside a model's weights."""

from __future__ import annotations

import pytest

from wlk_core import ModelNotFoundError
from wlk_core.models import read_json_table


@pytest.mark.parametrize(
    ("content", "expected"),
    [('{"dtype": "float32", "名": 1}', {"dtype": "float32", "名": 1}), ("[1, 2]", {}), (None, {})],
    ids=["table", "list", "no file"],
)
def test_a_table_is_read_from_its_file(tmp_path, content, expected):
    """A file without a table, and no file, give an empty table."""
    file = tmp_path / "config.json"
    if content is not None:
        file.write_text(content, encoding="utf-8")

    assert expected == read_json_table(file)


@pytest.mark.parametrize("content", [b"", b'{"dtype":', b'"\xff"'], ids=["empty", "cut", "bytes"])
def test_a_damaged_file_is_named_with_what_helps(tmp_path, content):
    """A damaged file is an error, not an empty table."""
    file = tmp_path / "config.json"
    file.write_bytes(content)

    with pytest.raises(ModelNotFoundError, match=r"config\.json is damaged: .*; pull the model"):
        read_json_table(file)
