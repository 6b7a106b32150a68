"""The JSON files that lie beside a model's weights."""

from __future__ import annotations

import json
import os

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core import ModelNotFoundError, OptionError
from wlk_core.models import (
    VOCABULARY_LIMITS,
    read_json,
    read_json_bytes,
    read_json_table,
    read_limited,
)
from wlk_core.models.json_kinds import ListOf, Table, Text, Whole
from wlk_core.models.json_table import parse_json

ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("content", "expected"),
    [('{"dtype": "float32", "名": 1}', {"dtype": "float32", "名": 1}), (None, {})],
    ids=["table", "no file"],
)
def test_a_table_is_read_from_its_file(tmp_path, content, expected):
    """No file gives an empty table, because most files of a model are optional."""
    file = tmp_path / "config.json"
    if content is not None:
        file.write_text(content, encoding="utf-8")

    assert expected == read_json_table(file)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "Expecting value"),
        (b'{"dtype":', "Expecting value"),
        (b'"\xff"', "can't decode byte 0xff"),
        (b"[" * 100_000, "nested deeper than 64 levels"),
        (b"[" * 65 + b"]" * 65, "nested deeper than 64 levels"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested deeper than 64 levels"),
        (b" " * (2**20 + 1), "more than 1 MiB"),
        (b"[" + b"0," * 100_000 + b"0]", "more than 100,000 values"),
        (b'{"a": NaN}', "NaN is no number of JSON"),
        (b'{"a": -Infinity}', "-Infinity is no number of JSON"),
        (b'{"a": 1e999}', "the number '1e999' is too large"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "is too large"),
        (b'{"a": {"b": 1, "b": 2}}', "the key 'b' comes twice in a table"),
        (b'{"a": "\\ud800"}', "half of a surrogate pair"),
        (b'{"\\udfff": 1}', "half of a surrogate pair"),
        (b"\xef\xbb\xbf{}", "BOM"),
    ],
    ids=["empty", "cut", "bytes", "deep lists", "65 lists", "deep tables", "size", "values", "NaN",
         "infinity", "overflow", "digits", "twice", "surrogate", "surrogate key", "mark"],
)  # fmt: skip
def test_a_damaged_file_is_named_with_what_helps(tmp_path, content, reason):
    """A damaged file is an error in one line, never an empty table."""
    file = tmp_path / "config.json"
    file.write_bytes(content)

    with pytest.raises(
        ModelNotFoundError, match=r"config\.json is damaged: .*; pull the"
    ) as caught:
        read_json_table(file)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(file)) + 200


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b" " * (32 * 2**20 + 1), "more than 32 MiB"),
        (b"[" + b"0," * 1_000_000 + b"0]", "more than 1,000,000 values"),
    ],
    ids=["size", "values"],
)
def test_only_a_vocabulary_may_be_large(tmp_path, content, reason):
    """A tokenizer of 152,000 tokens has twenty times the limits of settings."""
    file = tmp_path / "tekken.json"
    file.write_bytes(content)
    with pytest.raises(ModelNotFoundError, match=reason):
        read_json_table(file, limits=VOCABULARY_LIMITS)

    file.write_text(json.dumps({f"{number:040}": number for number in range(100_000)}))

    assert 100_000 == len(read_json_table(file, limits=VOCABULARY_LIMITS))
    with pytest.raises(ModelNotFoundError, match="more than 1 MiB"):
        read_json_table(file)


@pytest.mark.parametrize("content", [b"[1, 2]", b"null", b"3", b'"text"'])
def test_a_file_without_a_table_is_named(tmp_path, content):
    """Another value is never taken for an empty table."""
    file = tmp_path / "config.json"
    file.write_bytes(content)

    with pytest.raises(ModelNotFoundError, match=r"config\.json is invalid: expected a table, got"):
        read_json_table(file)


@pytest.mark.parametrize("kind", ["folder", "FIFO"])
def test_a_file_of_another_kind_is_never_opened(tmp_path, kind):
    """Reading a FIFO would wait for a writer for ever."""
    path = tmp_path / "config.json"
    if kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)

    for read in (read_json_table, read_json_bytes, read_limited):
        with pytest.raises(ModelNotFoundError, match=r"config\.json is invalid: expected a file"):
            read(path)


def test_a_pair_of_surrogates_is_text(tmp_path):
    """Programs that write ASCII escape every character beyond the first plane so."""
    file = tmp_path / "vocab.json"
    file.write_text(json.dumps({"😀": 1}), encoding="ascii")

    assert {"😀": 1} == read_json_table(file)


def test_a_key_of_another_kind_is_named_with_the_value(tmp_path):
    """The caller's remedy ends the message, and its class is the class of the error."""
    file = tmp_path / "adapter.json"
    file.write_text('{"layers": {"count": "x"}}')
    schema = Table({"layers": Table({"count": Whole(1, 64)})})

    with pytest.raises(
        OptionError, match=r"layers\.count as a whole number from 1 to 64, got 'x'; save it again$"
    ):
        read_json_table(file, schema, remedy="save it again", error=OptionError)


def test_a_list_is_read_where_its_schema_is_a_list(tmp_path):
    """The vocabulary of some formats is a list; its bytes are as they were."""
    file = tmp_path / "vocabulary.json"
    file.write_bytes(b'["a",  "b"]')

    assert ["a", "b"] == read_json(file, ListOf(Text()))
    assert read_json_bytes(file, ListOf(Text())) == b'["a",  "b"]'
    assert read_json(tmp_path / "none.json", ListOf(Text())) is None
    assert read_json_bytes(tmp_path / "none.json") is None


@given(ANY_JSON)
def test_every_json_value_is_the_same_as_in_the_standard_library(value):
    """The limits change no file that keeps to them."""
    text = json.dumps({"value": value})

    assert json.loads(text) == parse_json(text.encode(), Table(), name="x")


@given(st.binary(max_size=60) | st.text('[]{}":,0123eE+-\\udaNf\n ', max_size=60).map(str.encode))
def test_any_bytes_are_a_table_or_an_error_in_one_line(content):
    """No content has an error of its own."""
    try:
        assert isinstance(parse_json(content, Table(), name="x"), dict)
    except ModelNotFoundError as error:
        assert "\n" not in str(error)
