"""The KV cache of one stream on torch: one buffer a layer, truncated by lowering a number."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

__all__ = ["TorchKVCache"]

BLOCK = 256  # positions by which a buffer grows


class TorchKVCache:
    """
    A KV cache with the interface of transformers' caches; see KVCache.

    A forward writes after `length`, which the network raises only once the forward is complete.
    """

    def __init__(self) -> None:
        self.length = 0  #: positions held
        self._layers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers, which are as long as the longest forward and never shrink."""
        return sum(keys.nbytes + values.nbytes for keys, values in self._layers.values())

    def truncate(self, length: int) -> None:
        """Drop all but the first *length* positions."""
        self.length = min(self.length, length)

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write [1, heads, new, size] after the held positions; return held and new together."""
        end = self.length + keys.shape[2]
        buffers = self._layers.get(layer_idx)
        if buffers is None or buffers[0].shape[2] < end:
            buffers = (self._grow(buffers, 0, keys, end), self._grow(buffers, 1, values, end))
            self._layers[layer_idx] = buffers
        for buffer, new in zip(buffers, (keys, values), strict=True):
            buffer[:, :, self.length : end] = new
        return buffers[0][:, :, :end], buffers[1][:, :, :end]

    def _grow(
        self, buffers: Sequence[torch.Tensor] | None, index: int, new: torch.Tensor, end: int
    ) -> torch.Tensor:
        """Return a buffer of whole blocks that holds *end* positions, the held ones copied."""
        positions = -(-end // BLOCK) * BLOCK
        grown = new.new_empty((new.shape[0], new.shape[1], positions, new.shape[3]))
        if buffers is not None:
            grown[:, :, : self.length] = buffers[index][:, :, : self.length]
        return grown
