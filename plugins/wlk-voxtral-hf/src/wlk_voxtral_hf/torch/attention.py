"""Attention of several streams in one pass: each row to the positions of its own cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import torch
from torch.nn import functional
from transformers.models.voxtral_realtime import modeling_voxtral_realtime

from wlk_voxtral_hf.torch.pages import EMPTY, PAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from wlk_voxtral_hf.torch.pages import PagedCache, PagePool

__all__ = ["AttentionPass"]


@attrs.frozen(kw_only=True, eq=False)
class AttentionPass:
    """
    New positions of several caches, which go through a stack of layers together.

    Hidden states are packed, [positions, width], row after row, because rows may have different
    numbers of positions.  Only queries are padded, to the longest row.

    Attributes:
        pool: the memory of the caches.
        caches: of each row, with room for its new positions.
        counts: new positions of each row.
        position_ids: int64[1, positions].
        numbers: int64[rows * pages], the pages of each row, padded with the page EMPTY.
        places: int64[positions], where keys and values are written.
        mask: bool[rows, 1, longest, keys], true where a query attends to a key.
        padded: int64[positions], where each position is among the padded queries; None where all
            rows are equally long.

    """

    pool: PagePool
    caches: list[PagedCache]
    counts: list[int]
    position_ids: Tensor
    numbers: Tensor
    places: Tensor
    mask: Tensor
    padded: Tensor | None

    @classmethod
    def of(
        cls, pool: PagePool, caches: Sequence[PagedCache], counts: Sequence[int]
    ) -> AttentionPass:
        """Extend *caches* by so many positions each."""
        extended = pool.extended(caches, counts)
        longest, pages = max(counts), max(len(cache.pages) for cache in extended)
        positions, places, padded, queries = (
            list[int](),
            list[int](),
            list[int](),
            list[list[int]](),
        )
        for row, (cache, count) in enumerate(zip(extended, counts, strict=True)):
            new = range(cache.positions - count, cache.positions)
            positions += new
            places += [
                cache.pages[(position - cache.start) // PAGE].number * PAGE + position % PAGE
                for position in new
            ]
            padded += range(row * longest, row * longest + count)
            # A padded query repeats the last one, because a softmax over nothing is not a number.
            queries.append([*new, *[new[-1]] * (longest - count)])
        device = pool.device
        keys = torch.tensor([cache.start for cache in extended], device=device)[:, None]
        keys = (keys + torch.arange(pages * PAGE, device=device))[:, None, None]
        queried = torch.tensor(queries, device=device)[:, None, :, None]
        return cls(
            pool=pool,
            caches=extended,
            counts=list(counts),
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
            padded=None if min(counts) == longest else torch.tensor(padded, device=device),
        )

    def attend(
        self, attention: Any, layer: int, states: Tensor, rotation: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Return the self-attention of *layer* for packed states; writes keys and values."""
        modeling: Any = modeling_voxtral_realtime
        size = attention.head_dim
        # [1, heads, positions, size], as the rotation takes them
        queries = attention.q_proj(states).view(1, len(states), -1, size).transpose(1, 2)
        keys = attention.k_proj(states).view(1, len(states), -1, size).transpose(1, 2)
        values = attention.v_proj(states).view(len(states), -1, size)
        queries, keys = modeling.apply_rotary_pos_emb(queries, keys, *rotation)
        self.pool.write(layer, self.places, keys[0].transpose(0, 1), values)
        rows = len(self.counts)
        memory = self.pool.gathered(layer, self.numbers, rows=rows)
        mixed = functional.scaled_dot_product_attention(
            self._padded(queries[0].transpose(0, 1)).transpose(1, 2),
            memory[:, :, 0].transpose(1, 2),
            memory[:, :, 1].transpose(1, 2),
            attn_mask=self.mask,
            scale=attention.scaling,
            enable_gqa=True,
        )
        packed = mixed.transpose(1, 2).reshape(rows * mixed.shape[2], -1)
        if self.padded is not None:
            packed = packed.index_select(0, self.padded)
        output: Tensor = attention.o_proj(packed)
        return output

    def _padded(self, queries: Tensor) -> Tensor:
        """Return packed [positions, heads, size] as [rows, longest, heads, size]."""
        if self.padded is None:
            return queries.reshape(len(self.counts), -1, *queries.shape[1:])
        longest = max(self.counts)
        whole = queries.new_zeros(len(self.counts) * longest, *queries.shape[1:])
        whole.index_copy_(0, self.padded, queries)
        return whole.view(len(self.counts), longest, *queries.shape[1:])
