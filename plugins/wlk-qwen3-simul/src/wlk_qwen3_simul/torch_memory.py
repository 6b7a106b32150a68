"""Keys and values of one stream on torch: one buffer a layer, cut back by forgetting a number."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

__all__ = ["TorchMemory"]

BLOCK = 256  # positions by which a buffer grows


class TorchMemory:
    """
    What transformers' layers call a cache; see Memory.

    A pass writes behind `length`, which is moved on only when the pass is complete, so that one
    that fails halfway has changed nothing.
    """

    def __init__(self) -> None:
        self.length = 0  #: positions held
        self._layers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers, which are as long as the longest pass was and never shrink."""
        return sum(keys.nbytes + values.nbytes for keys, values in self._layers.values())

    def keep(self, length: int) -> None:
        """Forget all but the first *length* positions."""
        self.length = min(self.length, length)

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write [1, heads, new, size] behind what is held; return all of both with it."""
        end = self.length + keys.shape[2]
        held = self._layers.get(layer_idx)
        if held is None or held[0].shape[2] < end:
            held = (self._grown(held, 0, keys, end), self._grown(held, 1, values, end))
            self._layers[layer_idx] = held
        for buffer, new in zip(held, (keys, values), strict=True):
            buffer[:, :, self.length : end] = new
        return held[0][:, :, :end], held[1][:, :, :end]

    def _grown(
        self, held: Sequence[torch.Tensor] | None, place: int, like: torch.Tensor, end: int
    ) -> torch.Tensor:
        room = -(-end // BLOCK) * BLOCK
        buffer = like.new_empty((like.shape[0], like.shape[1], room, like.shape[3]))
        if held is not None:
            buffer[:, :, : self.length] = held[place][:, :, : self.length]
        return buffer
