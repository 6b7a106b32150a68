"""The KV cache of one stream on MLX."""

from __future__ import annotations

from typing import Any

__all__ = ["MlxKVCache"]


class MlxKVCache:
    """The keys and values of one stream; arrays are replaced, never written to. See KVCache."""

    def __init__(self) -> None:
        self.length = 0  #: positions held
        #: keys and values of each layer, [1, heads, positions, size]
        self.layers: list[tuple[Any, Any]] = []

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, which are as long as the latest forward left them."""
        return sum(int(keys.nbytes + values.nbytes) for keys, values in self.layers)

    def truncate(self, length: int) -> None:
        """Drop all but the first *length* positions."""
        self.length = min(self.length, length)
