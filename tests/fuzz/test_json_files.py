"""Files of JSON that others write: a table, nothing, or one line that names the file."""

from __future__ import annotations

import json

from cases import cases
from hypothesis import example, given
from hypothesis import strategies as st
from mutations import damaged
import pytest

from wlk_core import ModelNotFoundError
from wlk_core.models import read_json_table

pytestmark = pytest.mark.slow

KEYS = st.sampled_from(["backend", "repo", "revision", "files", "found", "languages"])
NAMES = st.sampled_from(["o/m", "../o", "/etc", "a" * 40, "config.json", "..", "", "a/../../b"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | NAMES | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(KEYS | NAMES | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=10,
)
FILES = [
    json.dumps({"vocab_size": 51_864, "d_model": 64, "eos_token_id": [1, 2]}).encode(),
    json.dumps({"languages": ["en"], "buffer_seconds": 8.0, "shorter_input": True}).encode(),
]


@pytest.fixture
def data(tmp_path_factory):
    """Return a folder for the files of a model."""
    return tmp_path_factory.mktemp("data")


def check_table(path, content):
    """Read *content* as a file of a model."""
    path.write_bytes(content)
    try:
        assert isinstance(read_json_table(path), dict)
    except ModelNotFoundError as error:
        assert str(path) in str(error)
        assert "\n" not in str(error)


@cases
@given(value=VALUES)
@example(value=10**400)
@example(value=float("nan"))
def test_any_json_is_a_table_or_one_line(data, value):
    """Whatever values a file has, reading it raises nothing but ModelNotFoundError."""
    check_table(data / "config.json", json.dumps(value).encode())


@cases
@given(content=damaged(FILES))
@example(content=b"\xff\xfe{")
@example(content=b"[" * 100_000)
@example(content=b'{"a": ' + b"9" * 5000 + b"}")
def test_a_damaged_file_is_a_table_or_one_line(data, content):
    """Cut, changed and nested text is a table or a line that names the file."""
    check_table(data / "config.json", content)
