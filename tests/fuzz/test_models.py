"""Files of a model directory are read as tables and tensors, or refused in one line."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st
import pytest

from wlk_core import ModelNotFoundError
from wlk_frameworks.checkpoints import read_json_table, read_safetensors_header

from .cases import cases, damaged

pytestmark = pytest.mark.slow

NAMES = st.sampled_from(["o/m", "../o", "/etc", "config.json", "", "a\\b", "\0", "0" * 40, "F32"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | NAMES | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=10,
)
FILES = [
    json.dumps({"vocab_size": 51_864, "d_model": 64, "eos_token_id": [1, 2]}).encode(),
    json.dumps({"languages": ["en"], "buffer_seconds": 8.0, "shorter_input": True}).encode(),
]
HEADER = json.dumps(
    {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]},
        "b": {"dtype": "F16", "shape": [4], "data_offsets": [8, 16]},
    }
).encode()
WEIGHTS = len(HEADER).to_bytes(8, "little") + HEADER + bytes(16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a model directory."""
    return tmp_path_factory.mktemp("model")


def read(path, content, reader):
    """Return what *reader* returns for a file with *content*; None if it is refused."""
    path.write_bytes(content)
    try:
        return reader(path)
    except ModelNotFoundError as error:
        assert str(path) in str(error)
        assert "\n" not in str(error)


@cases
@given(content=damaged(FILES) | VALUES.map(lambda value: json.dumps(value).encode()))
@example(content=json.dumps(10**400).encode())
@example(content=b"\xff\xfe{")
@example(content=b"[" * 100_000)
@example(content=b'{"a": ' + b"9" * 5000 + b"}")
def test_a_file_of_json_is_a_table_or_one_line(folder, content):
    """Truncated, changed and nested text, and any values, give a table or an error naming it."""
    assert isinstance(read(folder / "config.json", content, read_json_table), dict | None)


@cases
@given(content=damaged([WEIGHTS]))
@example(content=b"\xff" * 16)
@example(content=(2**40).to_bytes(8, "little"))
def test_damaged_weights_have_a_sound_header_or_one_line(folder, content):
    """The tensors of a header are within its file."""
    tensors = read(folder / "model.safetensors", content, read_safetensors_header) or {}

    assert sum(tensor.size for tensor in tensors.values()) <= 2 * len(content)
