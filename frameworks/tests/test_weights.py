"""Headers of weights, and whether the sizes of a config match them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from wlk_core import ModelNotFoundError
from wlk_frameworks.checkpoints import (
    LayerCount,
    TensorHeader,
    TensorSize,
    check_agreement,
    check_sizes,
    read_safetensors_header,
    read_safetensors_headers,
    shard_names,
    weight_names,
)

NORM = {"dtype": "F16", "shape": [4], "data_offsets": [0, 8]}


def write(path, header, *, data=16, length=None):
    """Write a safetensors file with *header* (a table or bytes) and zeros as data."""
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(content) if length is None else length
    path.write_bytes(size.to_bytes(8, "little") + content + bytes(data))
    return path


def test_names_types_and_shapes_are_read(tmp_path):
    """The data is not read, and shards are combined."""
    first = write(tmp_path / "1.safetensors", {"__metadata__": {"format": "pt"}, "norm": NORM})
    scale = {"dtype": "U32", "shape": [], "data_offsets": [0, 4]}
    second = write(tmp_path / "2.safetensors", {"scale": scale})
    tensors = read_safetensors_headers([first, second])

    assert tensors == {"norm": TensorHeader("F16", (4,)), "scale": TensorHeader("U32", ())}
    assert (tensors["norm"].size, tensors["scale"].size) == (4, 1)


@pytest.mark.parametrize(
    ("header", "options", "reason"),
    [
        ({"norm": NORM}, {"length": 2**63}, "expected a safetensors header"),
        ({"norm": NORM}, {"length": 0}, "expected a safetensors header"),
        ({"norm": NORM}, {"data": 4}, "the tensor norm lies outside"),
        ({"norm": {**NORM, "shape": [5]}}, {}, "the tensor norm lies outside"),
        ({"norm": {**NORM, "shape": [1] * 9, "data_offsets": [0, 2]}}, {}, "length <= 8"),
        ({"norm": {**NORM, "data_offsets": [8, 0]}}, {}, "the tensor norm lies outside"),
        ({"norm": {**NORM, "data_offsets": [-8, 0]}}, {}, "the tensor norm lies"),
        ({"norm": {**NORM, "data_offsets": [0]}}, {}, "length 2, got 1 - at `$.data"),
        ({"norm": {**NORM, "shape": [-4]}}, {}, "`int` >= 0 - at `$.shape[0]`"),
        ({"norm": {**NORM, "shape": 4}}, {}, "`array`, got `int` - at `$.shape`"),
        ({"norm": {**NORM, "shape": [2**32 + 4]}}, {}, "`int` <= 2147483647"),
        ({"norm": {**NORM, "dtype": "F7"}}, {}, "norm has the unknown type F7"),
        ({"norm": [NORM]}, {}, "the tensor norm: Expected `object`"),
        ({"a": NORM, "b": NORM, "c": NORM}, {}, "its tensors overlap"),
        ([NORM], {}, "Expected `object`, got `array`"),
        (b"[" * 100_000, {}, "maximum recursion depth exceeded"),
        (b'{"norm"', {}, "truncated"),
    ],
)
def test_a_damaged_header_is_named(tmp_path, header, options, reason):
    """Nothing is allocated or mapped for the file, whatever its header claims."""
    path = write(tmp_path / "model.safetensors", header, **options)

    with pytest.raises(ModelNotFoundError, match=r"safetensors is (damaged|invalid): ") as caught:
        read_safetensors_header(path)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["none", "folder", "FIFO", "empty", "short"])
def test_a_path_without_weights_is_named(tmp_path, kind):
    """A FIFO is never opened."""
    path = tmp_path / "model.safetensors"
    make = {"folder": Path.mkdir, "FIFO": os.mkfifo, "empty": Path.touch}
    make.get(kind, lambda path: path.write_bytes(b"123") if kind == "short" else None)(path)

    with pytest.raises(ModelNotFoundError, match=r"safetensors is (missing|damaged)"):
        read_safetensors_header(path)


@pytest.mark.parametrize(
    ("index", "names"),
    [
        (None, ()),
        ({"weight_map": {"a": "2.safetensors", "b": "1.safetensors", "c": "2.safetensors"}},
         ("1.safetensors", "2.safetensors")),
    ],
)  # fmt: skip
def test_the_files_of_an_index_are_listed_once(tmp_path, index, names):
    """Without an index no file is listed."""
    path = tmp_path / "model.safetensors.index.json"
    if index is not None:
        path.write_text(json.dumps(index))

    assert shard_names(path) == names


@pytest.mark.parametrize(
    ("files", "names"),
    [
        ((), ("model.safetensors",)),
        (("index",), ("1.safetensors", "2.safetensors")),
        (("index", "single"), ("model.safetensors",)),
    ],
    ids=["neither", "shards", "both"],
)
def test_a_single_file_of_weights_counts_before_shards(tmp_path, files, names):
    """Transformers makes the same choice."""
    if "index" in files:
        index = {"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    if "single" in files:
        (tmp_path / "model.safetensors").touch()

    assert weight_names(tmp_path) == names


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        ({}, "missing required field `weight_map`"),
        ({"weight_map": ["a"]}, "Expected `object`, got `array` - at `$.weight_map`"),
        ({"weight_map": {"a": 1}}, "Expected `str`, got `int` - at `$.weight_map[...]`"),
        ({"weight_map": {"a": "../a"}}, "names '../a', which is not a file of its folder"),
        ({"weight_map": {"a": "/etc/passwd"}}, "not a file of its folder"),
        ({"weight_map": {"a": ".."}}, "not a file of its folder"),
        ({"weight_map": {"a": ""}}, "not a file of its folder"),
        ({"weight_map": {"a": "b\0"}}, "not a file of its folder"),
    ],
)
def test_an_index_that_leads_elsewhere_is_refused(tmp_path, index, reason):
    """A model is read only from its own folder."""
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps(index))

    with pytest.raises(ModelNotFoundError, match=r"index\.json is (damaged|invalid)") as caught:
        shard_names(path)
    assert reason in str(caught.value)


SIZES = (
    LayerCount("text.layers", ("model.layers.", "layers.")),
    TensorSize("width", ("model.norm", "norm")),
    TensorSize("heads x head_size", ("layers.0.query",)),
    TensorSize("text.vocabulary", ("embedding",), axis=1),
)
TENSORS = {
    "norm": TensorHeader("F16", (8,)),
    "layers.0.query": TensorHeader("F16", (6, 8)),
    "layers.1.query": TensorHeader("F16", (6, 8)),
    "embedding": TensorHeader("F16", (8, 50)),
}
CONFIG = {"text": {"layers": 2, "vocabulary": 50}, "width": 8, "heads": 2, "head_size": 3}


def test_sizes_of_the_weights_pass():
    """Names from any layout match, and products of keys too."""
    assert [size.measure(TENSORS) for size in SIZES] == [2, 8, 6, 50]

    check_sizes(CONFIG, SIZES, TENSORS, path=Path("config.json"))
    check_sizes({"width": 8, "text": None}, SIZES, TENSORS, path=Path("config.json"))


def test_a_tensor_that_is_missing_is_named():
    """No model is built with a size that the weights do not confirm."""
    with pytest.raises(ModelNotFoundError, match=r"width=8, .* lack model\.norm;"):
        check_sizes(CONFIG, SIZES[1:], {}, path=Path("config.json"))


def test_files_of_two_models_are_told_from_their_claims(tmp_path):
    """Both files are named; a file without the value claims nothing."""
    tokenizer, config = tmp_path / "tokenizer.json", tmp_path / "config.json"
    check_agreement(tokenizer, ("<end>", 5), config, ("eos_id", 5))
    check_agreement(tokenizer, ("<end>", 5), config, ("eos_id", None))

    with pytest.raises(ModelNotFoundError, match=r"json and config\.json .*<end>=5.*eos_id=6;"):
        check_agreement(tokenizer, ("<end>", 5), config, ("eos_id", 6))
