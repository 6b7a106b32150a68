"""What model directories contain: validated data, or one line."""

from __future__ import annotations

import json

from cases import cases
from hypothesis import example, given
from hypothesis import strategies as st
from mutations import damaged
import pytest

from wlk_core import ModelNotFoundError
from wlk_core.models import read_safetensors_header
from wlk_whisper.checkpoint import Checkpoint

pytestmark = pytest.mark.slow

NAMES = st.sampled_from(
    ["a.json", "b/c.bin", "../x", "/etc/x", "a//b", "", ".", "a\\b", "C:x", "\0"]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    NAMES,
    st.sampled_from(["0" * 40, "f" * 64, "F32", "en"]),
)
SETTINGS = ["languages", "tasks", "dtype", "shorter_input", "buffer_seconds", "cpu_threads"]


def weights(table, data=b"\0" * 16):
    """Return a safetensors file with this header."""
    header = json.dumps(table).encode()
    return len(header).to_bytes(8, "little") + header + data


WEIGHTS = weights(
    {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]},
        "b": {"dtype": "F16", "shape": [4], "data_offsets": [8, 16]},
    }
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a model's directory."""
    return tmp_path_factory.mktemp("model")


@cases
@given(content=damaged([WEIGHTS]))
@example(content=b"\xff" * 16)
@example(content=(2**40).to_bytes(8, "little"))
def test_damaged_weights_have_a_sound_header_or_one_line(folder, content):
    """The tensors of a header lie inside of its file."""
    path = folder / "model.safetensors"
    path.write_bytes(content)
    try:
        tensors = read_safetensors_header(path)
    except ModelNotFoundError as error:
        assert str(path) in str(error)
        assert "\n" not in str(error)
        return

    assert sum(tensor.size for tensor in tensors.values()) <= 2 * len(content)


@cases
@given(table=st.dictionaries(st.sampled_from(SETTINGS), SCALARS | st.lists(SCALARS, max_size=2)))
@example(table={"languages": 5})
@example(table={"buffer_seconds": -1e308})
def test_any_settings_of_a_checkpoint_are_checked_or_one_line(folder, table):
    """The values of wlk.json have the types that are declared, or the line names the file."""
    (folder / "wlk.json").write_text(json.dumps(table), encoding="utf-8")
    try:
        checkpoint = Checkpoint.read(folder, name="m")
    except ModelNotFoundError as error:
        assert "wlk.json" in str(error)
        assert "\n" not in str(error)
        return

    assert 0.0 < checkpoint.buffer_seconds < float("inf")
    assert checkpoint.cpu_threads is None or checkpoint.cpu_threads >= 0
    for names in (checkpoint.languages, checkpoint.tasks):
        assert names is None or all(isinstance(name, str) for name in names)
