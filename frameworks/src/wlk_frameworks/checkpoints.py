"""
Read the untrusted files of a model directory: JSON, and the headers of weights.

msgspec checks JSON against a schema, usually a `msgspec.Struct` with the keys that a program reads;
its errors name the path of the key.  The value is returned unconverted, because frameworks read
other keys too.

Frameworks allocate what a config asks for, so a wrong number could exhaust the memory before it is
compared with the weights.  The headers of safetensors give the shapes without the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
import math
import re
import stat
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import msgspec

from wlk_core.errors import ModelNotFoundError, WLKError
from wlk_core.untrusted import one_line

if TYPE_CHECKING:
    from pathlib import Path

# The largest published files that are not weights: a tekken.json, 20 MB, a tokenizer.json, 12 MB.
MAX_BYTES = 32 * 2**20
REMEDY = "pull the model again"

# Frameworks store sizes in 32 bits, and some silently truncate larger numbers.
Size = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]  #: a width, or a number of layers
Index = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]  #: a token id, a layer or a head

WEIGHTS = "model.safetensors"
MAX_HEADER_BYTES = 16 * 2**20  # 0.1 MB for 1.7 billion parameters
# Bytes per number, see https://github.com/huggingface/safetensors
ITEM_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2,
    "BF16": 2, "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8, "C64": 8,
}  # fmt: skip


def read_json(
    path: Path,
    schema: Any = dict[str, Any],
    *,
    remedy: str = REMEDY,
    error: type[WLKError] = ModelNotFoundError,
) -> Any:
    """
    Return the value in a JSON file of a model, None if there is no file.

    Raises *error* if the file cannot be read, is larger than 32 MiB, is damaged, or does not fit
    *schema*, a type that msgspec can convert to.  The message names the file and the key, and ends
    with *remedy*.
    """
    content = read_limited(path, remedy=remedy, error=error)
    if content is None:
        return None
    return parse_json(content, schema, name=str(path), remedy=remedy, error=error)


def read_json_table(path: Path, schema: Any = dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return the table in a JSON file, an empty one if there is no file; see `read_json`."""
    return read_json(path, schema, **options) or {}


def read_limited(
    path: Path, *, remedy: str = REMEDY, error: type[WLKError] = ModelNotFoundError
) -> bytes | None:
    """Return a file's bytes, None if there is no file; not for weights; raises as `read_json`."""
    try:
        # Opening a FIFO would block until another process writes to it.
        if not stat.S_ISREG(path.stat().st_mode):
            raise error(f"{path} is invalid: expected a file, got a folder or device; {remedy}")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as failure:
        reason = failure.strerror or failure
        raise error(f"{path} cannot be read: {reason}; {remedy}") from failure
    if len(content) > MAX_BYTES:
        raise error(f"{path} is damaged: it is larger than {MAX_BYTES // 2**20} MiB; {remedy}")
    return content


def parse_json(
    content: bytes,
    schema: Any = dict[str, Any],
    *,
    name: str,
    remedy: str = REMEDY,
    error: type[WLKError] = ModelNotFoundError,
) -> Any:
    """Return the value of JSON text; raises as `read_json`, with *name* in place of a path."""
    # Not cattrs: it converts leniently, cannot check ranges and does not name the key.  Ranges are
    # wide, because `check_sizes` compares sizes with the weights.
    try:
        value = msgspec.json.decode(content)
        msgspec.convert(value, schema)
    except msgspec.ValidationError as failure:
        raise error(f"{name} is invalid: {one_line(str(failure))}; {remedy}") from failure
    except (ValueError, RecursionError) as failure:
        raise error(f"{name} is damaged: {one_line(str(failure))}; {remedy}") from failure
    return value


class _Tensor(msgspec.Struct):
    dtype: str
    shape: Annotated[list[Index], msgspec.Meta(max_length=8)]
    data_offsets: tuple[int, int]


class _ShardIndex(msgspec.Struct):
    weight_map: dict[str, str]


@attrs.frozen
class TensorHeader:
    """The type, such as "F16" in safetensors, and shape of a tensor of a weights file."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def bytes_in(self, float_bytes: int) -> int:
        """Return the bytes in memory if floats take *float_bytes*; packed integers keep theirs."""
        return self.size * (float_bytes if "F" in self.dtype else ITEM_BYTES[self.dtype])


def read_safetensors_headers(paths: Iterable[Path]) -> dict[str, TensorHeader]:
    """Return the tensors of all shards of a model by name; raises as `read_safetensors_header`."""
    return {
        name: header for path in paths for name, header in read_safetensors_header(path).items()
    }


def read_safetensors_header(path: Path) -> dict[str, TensorHeader]:
    """Return a safetensors file's tensors by name, without data; ModelNotFoundError if damaged."""
    if not path.is_file():
        raise ModelNotFoundError(f"{path} is missing; {REMEDY}")
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            data_bytes = path.stat().st_size - 8 - length
            if data_bytes < 0 or not 0 < length <= MAX_HEADER_BYTES:
                raise _damaged(path, f"expected a safetensors header, got one of {length} bytes")
            content = file.read(length)
    except OSError as error:
        reason = error.strerror or error
        raise ModelNotFoundError(f"{path} cannot be read: {reason}; {REMEDY}") from error
    table = parse_json(content, name=str(path))
    table.pop("__metadata__", None)
    # No tensor may lie outside the file, and all together may not hold more than the file does.
    tensors: dict[str, TensorHeader] = {}
    total = 0
    for name, entry in table.items():
        try:
            tensor = msgspec.convert(entry, _Tensor)
        except msgspec.ValidationError as error:
            raise _damaged(path, f"the tensor {name}: {error}") from error
        if tensor.dtype not in ITEM_BYTES:
            raise _damaged(path, f"the tensor {name} has the unknown type {tensor.dtype}")
        start, end = tensor.data_offsets
        size = math.prod(tensor.shape) * ITEM_BYTES[tensor.dtype]
        if not 0 <= start <= end <= data_bytes or end - start != size:
            raise _damaged(path, f"the tensor {name} lies outside the file")
        total += size
        tensors[name] = TensorHeader(tensor.dtype, tuple(tensor.shape))
    if total > data_bytes:
        raise _damaged(path, "its tensors overlap")
    return tensors


def shard_names(path: Path) -> tuple[str, ...]:
    """Return the sorted file names in an index of shards; empty if there is no index."""
    names = sorted(set(read_json_table(path, _ShardIndex).get("weight_map", {}).values()))
    for name in names:
        if name in ("", ".", "..") or set(name) & set("/\\\0"):
            raise _damaged(path, f"weight_map names {name!r}, which is not a file of its folder")
    return tuple(names)


def weight_names(directory: Path) -> tuple[str, ...]:
    """Return the names of a model's weights files, which need not exist."""
    # A single file takes precedence over an index of shards, as in transformers.
    if (directory / WEIGHTS).exists():
        return (WEIGHTS,)
    return shard_names(directory / f"{WEIGHTS}.index.json") or (WEIGHTS,)


@attrs.frozen
class LayerCount:
    """A config key that counts layers, whose weights are named as in "layers.3.norm"."""

    key: str  #: its path, such as "text_config.num_hidden_layers"
    names: tuple[str, ...]  #: what precedes the layer number, by layout of files

    def measure(self, tensors: Mapping[str, TensorHeader]) -> int | None:
        """Return the number of layers that have weights."""
        layer = re.compile(rf"(?:{'|'.join(map(re.escape, self.names))})(\d+)\.")
        return len({match[1] for match in map(layer.match, tensors) if match})


@attrs.frozen
class TensorSize:
    """A config key, or a product of several, that is a dimension of a tensor."""

    key: str  #: its path, such as "text_config.hidden_size"; join factors with " x "
    names: tuple[str, ...]  #: of the tensor, by layout of files
    axis: int = 0

    def measure(self, tensors: Mapping[str, TensorHeader]) -> int | None:
        """Return the size in the weights; None if the tensor is missing."""
        shape = next((tensors[name].shape for name in self.names if name in tensors), ())
        return shape[self.axis] if self.axis < len(shape) else None


def check_sizes(
    config: Mapping[str, Any],
    sizes: Iterable[LayerCount | TensorSize],
    tensors: Mapping[str, TensorHeader],
    *,
    path: Path,
    remedy: str = REMEDY,
) -> None:
    """
    Raise ModelNotFoundError unless the sizes in *config*, read from *path*, fit the weights.

    Sizes that *config* omits are not checked; the others must be integers.
    """
    for size in sizes:
        factors = [_value(config, key) for key in size.key.split(" x ")]
        if None in factors:
            continue
        expected = math.prod(map(int, factors))
        measured = size.measure(tensors)
        if expected != measured:
            actual = f"lack {size.names[0]}" if measured is None else f"have {measured}"
            raise ModelNotFoundError(
                f"{path} does not fit the weights: it has {size.key}={expected}, but the weights "
                f"{actual}; {remedy}"
            )


def check_agreement(
    path: Path, claim: tuple[str, Any], other: Path, expected: tuple[str, Any]
) -> None:
    """
    Raise ModelNotFoundError if two files of a model, *path* and *other*, contradict each other.

    A claim is a name and its value; None claims nothing.  Files of two models can each be valid: a
    tokenizer whose ids are off by one gives other words, and no error.
    """
    (name, value), (other_name, other_value) = claim, expected
    if None not in (value, other_value) and value != other_value:
        raise ModelNotFoundError(
            f"{path} and {other.name} belong to different models: {path.name} has {name}={value}, "
            f"but {other.name} has {other_name}={other_value}; {REMEDY}"
        )


def _value(config: Mapping[str, Any], path: str) -> Any:
    value: Any = config
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _damaged(path: Path, reason: str) -> ModelNotFoundError:
    return ModelNotFoundError(f"{path} is damaged: {one_line(reason)}; {REMEDY}")
