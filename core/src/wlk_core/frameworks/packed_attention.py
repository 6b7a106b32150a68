"""Batched attention over paged caches: each row attends to the positions of its own cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import torch
from torch.nn import functional

from wlk_core.frameworks.kv_pages import EMPTY, PAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from wlk_core.frameworks.kv_pages import PagedCache, PagePool

__all__ = ["AttentionPass", "Packing"]


@attrs.frozen(kw_only=True, eq=False)
class Packing:
    """
    Conversion between packed rows, one after the other, and rows padded to the longest.

    Layers run on packed positions, because rows differ in length.  Only attention needs a
    rectangle.

    Attributes:
        counts: positions of each row, at least one.
        padded: int64[positions], the place of each position in the rectangle; None if all rows are
            equally long.

    """

    counts: tuple[int, ...]
    padded: Tensor | None

    @classmethod
    def of(cls, counts: Sequence[int], device: torch.device) -> Packing:
        """Return the packing of rows with *counts* positions."""
        longest = max(counts)
        if min(counts) == longest:
            return cls(counts=tuple(counts), padded=None)
        places = [row * longest + index for row, n in enumerate(counts) for index in range(n)]
        return cls(counts=tuple(counts), padded=torch.tensor(places, device=device))

    def pad(self, packed: Tensor) -> Tensor:
        """Return packed [positions, ...] as [rows, longest, ...], with zeros after shorter rows."""
        rows, longest = len(self.counts), max(self.counts)
        if self.padded is None:
            return packed.reshape(rows, longest, *packed.shape[1:])
        whole = packed.new_zeros(rows * longest, *packed.shape[1:])
        whole.index_copy_(0, self.padded, packed)
        return whole.view(rows, longest, *packed.shape[1:])

    def pack(self, padded: Tensor) -> Tensor:
        """Return padded [rows, longest, ...] as [positions, ...]."""
        packed = padded.reshape(-1, *padded.shape[2:])
        return packed if self.padded is None else packed.index_select(0, self.padded)


@attrs.frozen(kw_only=True, eq=False)
class AttentionPass:
    """
    A batch of new positions of several caches on its way through a stack of layers.

    Hidden states are packed, [positions, width], row after row; see Packing.

    Attributes:
        pool: the memory of the caches.
        caches: of each row, with room for its new positions.
        packing: of the new positions.
        position_ids: int64[1, positions].
        numbers: int64[rows * pages], the pages of each row, padded with the page EMPTY.
        places: int64[positions], where keys and values are written.
        mask: bool[rows, 1, longest, keys], true where a query attends to a key.

    """

    pool: PagePool
    caches: list[PagedCache]
    packing: Packing
    position_ids: Tensor
    numbers: Tensor
    places: Tensor
    mask: Tensor

    @classmethod
    def of(
        cls, pool: PagePool, caches: Sequence[PagedCache], counts: Sequence[int]
    ) -> AttentionPass:
        """Extend *caches* by *counts* positions."""
        extended = pool.extended(caches, counts)
        longest, pages = max(counts), max(len(cache.pages) for cache in extended)
        positions, places, queries = list[int](), list[int](), list[list[int]]()
        for cache, count in zip(extended, counts, strict=True):
            new = range(cache.positions - count, cache.positions)
            positions += new
            places += [
                cache.pages[(position - cache.start) // PAGE].number * PAGE + position % PAGE
                for position in new
            ]
            # A padded query repeats the last one, because a softmax over no keys is NaN.
            queries.append([*new, *[new[-1]] * (longest - count)])
        device = pool.device
        keys = torch.tensor([cache.start for cache in extended], device=device)[:, None]
        keys = (keys + torch.arange(pages * PAGE, device=device))[:, None, None]
        queried = torch.tensor(queries, device=device)[:, None, :, None]
        return cls(
            pool=pool,
            caches=extended,
            packing=Packing.of(counts, device),
            position_ids=torch.tensor([positions], device=device),
            numbers=torch.tensor(
                [
                    number
                    for cache in extended
                    for number in (
                        *(page.number for page in cache.pages),
                        *[EMPTY] * (pages - len(cache.pages)),
                    )
                ],
                device=device,
            ),
            places=torch.tensor(places, device=device),
            mask=(keys <= queried) & (keys > queried - pool.window),
        )

    def mix(
        self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, *, scale: float
    ) -> Tensor:
        """
        Write the keys and values, and return the attention of *layer*, [positions, heads * size].

        All are packed, [positions, heads, size]; keys and values may have fewer heads.
        """
        self.pool.write(layer, self.places, keys, values)
        memory = self.pool.gathered(layer, self.numbers, rows=len(self.caches))
        mixed = functional.scaled_dot_product_attention(
            self.packing.pad(queries).transpose(1, 2),
            memory[:, :, 0].transpose(1, 2),
            memory[:, :, 1].transpose(1, 2),
            attn_mask=self.mask,
            scale=scale,
            enable_gqa=True,
        )
        return self.packing.pack(mixed.transpose(1, 2)).flatten(1)
