"""The JSON files next to a model's weights."""

from __future__ import annotations

import json
import os

from msgspec import Struct
import pytest

from wlk_core import ModelNotFoundError, OptionError
from wlk_frameworks.checkpoints import MAX_BYTES, Size, read_json, read_json_table, read_limited


class _Layers(Struct):
    count: Size
    width: Size | None = None


class _Schema(Struct):
    layers: _Layers


@pytest.mark.parametrize(
    ("content", "expected"),
    [('{"dtype": "float32", "名": 1}', {"dtype": "float32", "名": 1}), (None, {})],
    ids=["table", "no file"],
)
def test_a_table_is_read_from_its_file(tmp_path, content, expected):
    """A missing file gives an empty table, because most files of a model are optional."""
    file = tmp_path / "config.json"
    if content is not None:
        file.write_text(content, encoding="utf-8")

    assert read_json_table(file) == expected


def test_keys_that_the_schema_leaves_out_are_kept(tmp_path):
    """Frameworks read them.  If the schema has a default, null counts as a missing key."""
    file = tmp_path / "config.json"
    table = {"layers": {"count": 3, "width": None}, "act": "gelu"}
    file.write_text(json.dumps(table))

    assert read_json_table(file, _Schema) == table


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "truncated"),
        (b'{"dtype":', "truncated"),
        (b'{"a": "\xff"}', "utf-8"),
        (b"[" * 100_000, "maximum recursion depth exceeded"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "maximum recursion depth exceeded"),
        (b" " * (MAX_BYTES + 1), "larger than 32 MiB"),
        (b'{"a": NaN}', "malformed"),
        (b'{"a": 1e999}', "out of range"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "out of range"),
        (b'{"a": "\\ud800"}', "truncated"),
        (b"[1, 2]", "Expected `object`, got `array`"),
        (b"null", "Expected `object`, got `null`"),
    ],
    ids=["empty", "cut", "bytes", "deep lists", "deep tables", "size", "NaN", "overflow", "digits",
         "surrogate", "list", "null"],
)  # fmt: skip
def test_a_damaged_file_is_named_with_what_helps(tmp_path, content, reason):
    """A damaged file is an error in one line, never an empty table."""
    file = tmp_path / "config.json"
    file.write_bytes(content)

    with pytest.raises(
        ModelNotFoundError, match=r"config\.json is (damaged|invalid): .*; pull the model again$"
    ) as caught:
        read_json_table(file)
    assert reason.lower() in str(caught.value).lower()  # releases of msgspec differ
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(file)) + 200


@pytest.mark.parametrize("kind", ["folder", "FIFO"])
def test_a_file_of_another_kind_is_never_opened(tmp_path, kind):
    """Reading a FIFO would wait forever for a writer."""
    path = tmp_path / "config.json"
    if kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)

    for read in (read_json_table, read_limited):
        with pytest.raises(ModelNotFoundError, match=r"config\.json is invalid: expected a file"):
            read(path)


def test_a_value_of_another_type_is_named_with_its_path(tmp_path):
    """The message ends with the caller's remedy, and the error has the caller's class."""
    file = tmp_path / "adapter.json"
    file.write_text('{"layers": {"count": "x"}}')

    with pytest.raises(
        OptionError, match=r"Expected `int`, got `str` - at `\$\.layers\.count`; save it again$"
    ):
        read_json_table(file, _Schema, remedy="save it again", error=OptionError)


def test_a_list_is_read_where_its_schema_is_a_list(tmp_path):
    """The vocabulary of some formats is a list."""
    file = tmp_path / "vocabulary.json"
    file.write_bytes(b'["a",  "b"]')

    assert read_json(file, list[str]) == ["a", "b"]
    assert read_json(tmp_path / "none.json", list[str]) is None
