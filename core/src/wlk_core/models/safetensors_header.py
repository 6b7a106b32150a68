"""The header of a safetensors file: names, types and shapes, read without mapping the file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import attrs

from wlk_core.errors import ModelNotFoundError
from wlk_core.models.json_kinds import ListOf, Table, TableOf, Text, Whole, short
from wlk_core.models.json_limits import VOCABULARY_LIMITS
from wlk_core.models.json_table import REMEDY, parse_json, read_json_table

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = [
    "TensorHeader",
    "read_safetensors_header",
    "read_safetensors_headers",
    "shard_names",
    "weight_names",
]

WEIGHTS = "model.safetensors"
MAX_HEADER_BYTES = 16 * 2**20  # of a model of 1.7 billion parameters: 0.1 MB
MAX_RANK = 8
LENGTH_BYTES = 8  # the length of the header, in front of it
# https://github.com/huggingface/safetensors, bytes of a number
ITEM_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2,
    "BF16": 2, "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8, "C64": 8,
}  # fmt: skip
_OFFSET = Whole(0, 2**63 - 1)
_ENTRY = Table(
    {
        "dtype": Text(*ITEM_BYTES),
        # MLX keeps the lowest 32 bits of a size.
        "shape": ListOf(Whole(), label="a list of sizes"),
        "data_offsets": ListOf(_OFFSET, length=2, label="the first byte and the end"),
    },
    required=("dtype", "shape", "data_offsets"),
)
_HEADER = Table({"__metadata__": TableOf(Text())})
_INDEX = Table({"weight_map": TableOf(Text())}, required=("weight_map",))


@attrs.frozen
class TensorHeader:
    """A tensor of a weights file; `dtype` is the name in the file, such as "F16"."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)


def read_safetensors_headers(paths: Iterable[Path]) -> dict[str, TensorHeader]:
    """
    Return the tensors of all shards of a model by their names.

    Raises:
        ModelNotFoundError: a file is missing or damaged.

    """
    tensors: dict[str, TensorHeader] = {}
    for path in paths:
        tensors |= read_safetensors_header(path)
    return tensors


def read_safetensors_header(path: Path) -> dict[str, TensorHeader]:
    """
    Return the tensors of a safetensors file by their names; their numbers are not read.

    Raises:
        ModelNotFoundError: the file is missing or damaged: the header is too long or no JSON, or a
            tensor has an unknown type or lies outside of the file.

    """
    try:
        if not path.is_file():
            raise ModelNotFoundError(f"{path} is missing; {REMEDY}")
        with path.open("rb") as file:
            length = int.from_bytes(file.read(LENGTH_BYTES), "little")
            data_bytes = path.stat().st_size - LENGTH_BYTES - length
            if data_bytes < 0 or not 0 < length <= MAX_HEADER_BYTES:
                raise _damaged(path, f"its header of {length} bytes is no header of weights")
            content = file.read(length)
    except OSError as error:
        raise ModelNotFoundError(
            f"{path} cannot be read: {error.strerror or error}; {REMEDY}"
        ) from error
    table: dict[str, Any] = parse_json(content, _HEADER, name=str(path), limits=VOCABULARY_LIMITS)
    table.pop("__metadata__", None)
    free = data_bytes
    for name, entry in table.items():
        fault = _ENTRY.fault(entry, name)
        if fault is not None:
            raise _damaged(path, str(fault))
        first, end = entry["data_offsets"]
        expected = math.prod(entry["shape"]) * ITEM_BYTES[entry["dtype"]]
        free -= expected
        if len(entry["shape"]) > MAX_RANK or end - first != expected or end > data_bytes:
            raise _damaged(path, f"the tensor {name} lies outside of the file")
    if free < 0:
        raise _damaged(path, "its tensors overlap")
    return {
        name: TensorHeader(entry["dtype"], tuple(entry["shape"])) for name, entry in table.items()
    }


def shard_names(path: Path) -> tuple[str, ...]:
    """
    Return the files that an index of shards names, sorted; none if there is no index.

    Raises:
        ModelNotFoundError: it is damaged, or names a file of another directory.

    """
    table = read_json_table(path, _INDEX, limits=VOCABULARY_LIMITS)
    names = sorted(set(table.get("weight_map", {}).values()))
    for name in names:
        if not name or name in (".", "..") or set(name) & set("/\\\0"):
            raise ModelNotFoundError(
                f"{path} is invalid: expected weight_map as files of its folder, got "
                f"{short(name)}; {REMEDY}"
            )
    return tuple(names)


def weight_names(directory: Path) -> tuple[str, ...]:
    """
    Return the files with the weights of a model in transformers' format: one, or its shards.

    A single file counts where there is an index beside it, as it does for transformers.  The files
    need not exist.

    Raises:
        ModelNotFoundError: the index is damaged, or names a file of another directory.

    """
    if (directory / WEIGHTS).exists():
        return (WEIGHTS,)
    return shard_names(directory / f"{WEIGHTS}.index.json") or (WEIGHTS,)


def _damaged(path: Path, reason: str) -> ModelNotFoundError:
    return ModelNotFoundError(f"{path} is damaged: {reason}; {REMEDY}")
