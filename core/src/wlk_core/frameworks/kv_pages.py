"""A paged KV cache: the caches of all streams are lists of pages in one preallocated pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

__all__ = ["PAGE", "PagePool", "PagedCache"]

PAGE = 16  # positions in a page: 1.3 s of the decoder
FIRST_PAGES = 16  # the least that a pool grows by
GROWTH = 1.5  # factor by which a full pool grows
EMPTY = 0  # number of a page of zeros, which pads shorter caches


class _Page:
    """A page that caches share; it returns to the pool when the last of them is collected."""

    def __init__(self, pool: PagePool, number: int) -> None:
        self._pool = pool
        self.number = number
        self.filled = 0  # positions from its start that some cache has written

    def __del__(self) -> None:
        self._pool.free.append(self.number)  # list.append is atomic; this runs in any thread


@attrs.frozen(kw_only=True, eq=False)
class PagedCache:
    """
    The keys and values of a stream up to a position; immutable, so that a call can be repeated.

    Pages are shared with the caches that it was made from and those made from it.  Its contents are
    never overwritten, except after `PagePool.truncated`.
    """

    pool: PagePool
    pages: tuple[_Page, ...] = ()
    start: int = 0  #: of the first page, a multiple of PAGE
    positions: int = 0  #: so far

    @property
    def nbytes(self) -> int:
        """Bytes of its pages, including shared ones."""
        return len(self.pages) * self.pool.page_bytes

    @property
    def layers(self) -> tuple[tuple[Tensor, Tensor], ...]:
        """Copies of the keys and values of each layer, [1, heads, positions, size]."""
        first = max(0, self.positions - self.pool.window + 1) - self.start
        stop = self.positions - self.start
        numbers = torch.tensor(
            [page.number for page in self.pages], device=self.pool.device, dtype=torch.int64
        )
        return tuple(
            (whole[:, :, 0].transpose(1, 2).clone(), whole[:, :, 1].transpose(1, 2).clone())
            for layer in range(self.pool.layers)
            for whole in [self.pool.gathered(layer, numbers, rows=1)[:, first:stop]]
        )


class PagePool:
    """
    The memory of all caches of a stack of attention layers.

    It grows when no page is free, and keeps its memory for later streams.  A page is zeroed before
    it is reused, so that no stream reads the data of another.  Only one thread at a time may use a
    pool.

    Args:
        layers: attention layers.
        heads: heads of keys and values.
        size: of a head.
        window: positions that a query attends to, including its own.
        device: of the memory.
        dtype: of the memory.

    """

    def __init__(
        self,
        *,
        layers: int,
        heads: int,
        size: int,
        window: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.layers = layers
        self.window = window
        self.device = device
        self.page_bytes = layers * 2 * PAGE * heads * size * dtype.itemsize
        self.free: list[int] = []
        shape = (1, PAGE, 2, heads, size)
        self._memory = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(layers)]
        self.capacity = 1  #: pages allocated, first the page EMPTY

    def new_cache(self) -> PagedCache:
        """Return a cache without positions."""
        return PagedCache(pool=self)

    def extended(self, caches: Sequence[PagedCache], counts: Sequence[int]) -> list[PagedCache]:
        """
        Return the caches with room for *counts* more positions, which the caller writes.

        The new caches lack the pages that have left the window.
        """
        # In sequence, because several caches may end in the same page.
        copied = [self._claim(cache, n) for cache, n in zip(caches, counts, strict=True)]
        needs = [
            -(-(cache.positions - cache.start + count) // PAGE) - len(cache.pages) + is_copied
            for cache, count, is_copied in zip(caches, counts, copied, strict=True)
        ]
        fresh = iter(self._allocated(sum(needs)))
        return [
            self._extended(cache, count, [next(fresh) for _ in range(need)], is_copied=is_copied)
            for cache, count, need, is_copied in zip(caches, counts, needs, copied, strict=True)
        ]

    def truncated(self, cache: PagedCache, dropped: int) -> PagedCache:
        """
        Return *cache* without its last *dropped* positions, and take those away from *cache*.

        No other cache may have been made from *cache*.
        """
        positions = cache.positions - dropped
        pages = cache.pages[: -(-(positions - cache.start) // PAGE)]
        if pages:
            pages[-1].filled = positions - cache.start - (len(pages) - 1) * PAGE
        return attrs.evolve(cache, pages=pages, positions=positions)

    def gathered(self, layer: int, numbers: Tensor, *, rows: int) -> Tensor:
        """Return the pages *numbers*, int64[rows * n], as [rows, n * PAGE, 2 (k and v), ...]."""
        memory = self._memory[layer]
        return memory.index_select(0, numbers).view(rows, -1, *memory.shape[2:])

    def write(self, layer: int, places: Tensor, keys: Tensor, values: Tensor) -> None:
        """Write [n, heads, size] to *places*, int64[n], flat positions in the memory of a layer."""
        memory = self._memory[layer]
        memory.view(-1, *memory.shape[2:]).index_copy_(0, places, torch.stack((keys, values), 1))

    def _claim(self, cache: PagedCache, count: int) -> bool:
        """Reserve the rest of the last page; return whether it is taken and must be copied."""
        filled = cache.positions % PAGE
        if not filled:
            return False
        tail = cache.pages[-1]
        if tail.filled != filled:
            return True
        tail.filled = min(PAGE, filled + count)
        return False

    def _extended(
        self, cache: PagedCache, count: int, fresh: list[_Page], *, is_copied: bool
    ) -> PagedCache:
        pages = list(cache.pages)
        if is_copied:
            self._copy(pages.pop(), fresh[0], cache.positions % PAGE)
        pages += fresh
        for index in range(len(pages) - len(fresh), len(pages)):
            pages[index].filled = min(PAGE, cache.positions + count - cache.start - index * PAGE)
        first = max(0, cache.positions - self.window + 1)  # that the next position attends to
        dropped = (first - cache.start) // PAGE if first > cache.start else 0
        return PagedCache(
            pool=self,
            pages=tuple(pages[dropped:]),
            start=cache.start + dropped * PAGE,
            positions=cache.positions + count,
        )

    def _allocated(self, count: int) -> list[_Page]:
        """Return pages of zeros."""
        if count > len(self.free):
            self._grow(max(count - len(self.free), round((GROWTH - 1) * self.capacity)))
        pages = [_Page(self, self.free.pop()) for _ in range(count)]
        if pages:
            numbers = torch.tensor([page.number for page in pages], device=self.device)
            for memory in self._memory:
                memory.index_fill_(0, numbers, 0)
        return pages

    def _grow(self, count: int) -> None:
        capacity = self.capacity + max(count, FIRST_PAGES)
        for layer, memory in enumerate(self._memory):  # one at a time, to hold few of them twice
            if len(memory) < capacity:
                grown = memory.new_zeros((capacity, *memory.shape[1:]))
                grown[: len(memory)] = memory
                self._memory[layer] = grown
        self.free.extend(range(capacity - 1, self.capacity - 1, -1))
        self.capacity = capacity

    def _copy(self, page: _Page, target: _Page, filled: int) -> None:
        for memory in self._memory:
            memory[target.number, :filled] = memory[page.number, :filled]
