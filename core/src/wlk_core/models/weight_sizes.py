"""Whether the sizes that a model's config gives are those of its weights, before it is built."""

from __future__ import annotations

from collections.abc import Mapping
import math
import re
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from wlk_core.errors import ModelNotFoundError
from wlk_core.models.json_table import REMEDY

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["LayerCount", "TensorSize", "check_sizes"]


class _Shaped(Protocol):
    @property
    def shape(self) -> tuple[int, ...]: ...


@attrs.frozen
class LayerCount:
    """
    A key of a config that counts layers, whose weights have names such as "layers.3.norm".

    Attributes:
        key: the path of the key, such as "text_config.num_hidden_layers".
        prefixes: what can come before the number in the names, one for each layout of files.

    """

    key: str
    prefixes: tuple[str, ...]

    def expected(self, config: Mapping[str, Any]) -> int | None:
        """Return the layers that *config* gives, None where it leaves them out."""
        return _product(config, self.key)

    @property
    def source(self) -> str:
        """What holds the size in the weights."""
        return f"{self.prefixes[0]}0"

    def found(self, tensors: Mapping[str, _Shaped]) -> int | None:
        """Return the layers that have weights."""
        layer = re.compile(rf"(?:{'|'.join(map(re.escape, self.prefixes))})(\d+)\.")
        return len({match[1] for match in map(layer.match, tensors) if match})


@attrs.frozen
class TensorSize:
    """
    A key of a config, or the product of several, that is a size of a tensor.

    Attributes:
        key: the path of the key, such as "text_config.hidden_size"; factors are joined by " x ".
        tensors: the names of the tensor, one for each layout of files.
        axis: the axis of the size, from 0.

    """

    key: str
    tensors: tuple[str, ...]
    axis: int = 0

    def expected(self, config: Mapping[str, Any]) -> int | None:
        """Return the size that *config* gives, None where it leaves a factor out."""
        return _product(config, self.key)

    @property
    def source(self) -> str:
        """What holds the size in the weights."""
        return self.tensors[0]

    def found(self, tensors: Mapping[str, _Shaped]) -> int | None:
        """Return the size in the weights; None where the tensor is missing."""
        shapes = (tensors[name].shape for name in self.tensors if name in tensors)
        shape = next(shapes, ())
        return shape[self.axis] if self.axis < len(shape) else None


def check_sizes(
    config: Mapping[str, Any],
    sizes: Iterable[LayerCount | TensorSize],
    tensors: Mapping[str, _Shaped],
    *,
    path: Path,
    remedy: str = REMEDY,
) -> None:
    """
    Check that the sizes of *config*, which was read from *path*, are those of the weights.

    Frameworks allocate what a config asks for, so that a wrong number could fill the memory before
    any of them compares it with the weights.

    Args:
        config: a schema must have accepted its sizes as whole numbers; a size whose key it leaves
            out is not compared.
        sizes: the sizes to compare.
        tensors: the tensors of the weights by their names.
        path: of the config, for the error message.
        remedy: the end of the error message.

    Raises:
        ModelNotFoundError: a size differs; the message names the file, the key and both numbers.

    """
    for size in sizes:
        expected, found = size.expected(config), size.found(tensors)
        if expected is None or expected == found:
            continue
        actual = f"have {found}" if found is not None else f"lack {size.source}"
        raise ModelNotFoundError(
            f"{path} does not fit the weights: it has {size.key}={expected}, and the weights "
            f"{actual}; {remedy}"
        )


def _product(config: Mapping[str, Any], key: str) -> int | None:
    factors = [_value(config, factor) for factor in key.split(" x ")]
    present = [factor for factor in factors if factor is not None]
    return math.prod(present) if len(present) == len(factors) else None


def _value(config: Mapping[str, Any], path: str) -> int | None:
    value: Any = config
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return None if value is None else int(value)
