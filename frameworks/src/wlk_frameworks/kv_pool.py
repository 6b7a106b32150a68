"""Batched attention for several streams on torch, with keys and values in a shared pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np
import torch
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

LEAST_GROWTH = 256  # positions
GROWTH = 1.5  # factor by which a full pool grows
EMPTY = 0  # the place that pads shorter caches; it holds zeros, because NaN spreads even if masked


class _Place:
    """A place in a pool; it becomes free when the last cache that holds it is collected."""

    __slots__ = ("_free", "number")

    def __init__(self, free: list[int]) -> None:
        self._free = free
        self.number = free.pop()

    def __del__(self) -> None:
        self._free.append(self.number)  # list.append is atomic: this can run in any thread


@attrs.frozen(kw_only=True, eq=False)
class KVCache:
    """The keys and values of a row up to a position; immutable, so that a call can be repeated."""

    # A place is written only once, by the pass that took it.  So caches with the same beginning
    # share places, and nothing is ever copied.

    pool: KVPool
    places: tuple[_Place, ...] = ()  #: one for each of the newest positions
    numbers: NDArray[np.int64] = attrs.field(factory=lambda: np.zeros(0, np.int64))  #: of `places`
    positions: int = 0  #: number so far, including those that have left the window

    @property
    def nbytes(self) -> int:
        """Bytes of its places, including shared ones."""
        return len(self.places) * self.pool.position_bytes

    def truncated(self, dropped: int) -> KVCache:
        """Return the cache without its last *dropped* positions."""
        kept = len(self.places) - dropped
        return attrs.evolve(
            self,
            places=self.places[:kept],
            numbers=self.numbers[:kept],
            positions=self.positions - dropped,
        )

    def extended(self, count: int) -> KVCache:
        """Return the cache with *count* new positions to write, less those outside the window."""
        left = max(0, len(self.places) - (self.pool.window - 1))
        fresh = self.pool.taken(count)
        numbers = np.array([place.number for place in fresh], np.int64)
        return attrs.evolve(
            self,
            places=self.places[left:] + fresh,
            numbers=np.concatenate((self.numbers[left:], numbers)),
            positions=self.positions + count,
        )


class KVPool:
    """
    The memory for all KV caches of a stack of attention layers, with one place per position.

    It grows when no place is free, and keeps its memory for later streams.  Only one thread at a
    time may use a pool.  Each of *layers* layers has *heads* key-value heads of *size* elements; a
    query attends to *window* positions, including its own.
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
        self.window = window
        self.device = device
        self.position_bytes = layers * 2 * heads * size * dtype.itemsize
        self.free: list[int] = []
        self.capacity = 1  #: places allocated, including EMPTY
        shape = (1, 2, heads, size)
        self._memory = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(layers)]

    def new_cache(self) -> KVCache:
        """Return a cache without positions."""
        return KVCache(pool=self)

    def taken(self, count: int) -> tuple[_Place, ...]:
        """Return *count* free places with undefined contents."""
        missing = count - len(self.free)
        if missing > 0:
            self._grow(max(missing, LEAST_GROWTH, round((GROWTH - 1) * self.capacity)))
        return tuple(_Place(self.free) for _ in range(count))

    def gathered(self, layer: int, numbers: Tensor) -> Tensor:
        """Return places int64[rows, n] as [rows, n, 2, heads, size], keys before values."""
        memory = self._memory[layer]
        return memory.index_select(0, numbers.flatten()).view(*numbers.shape, *memory.shape[1:])

    def write(self, layer: int, numbers: Tensor, keys: Tensor, values: Tensor) -> None:
        """Write [n, heads, size] to the places int64[n]."""
        self._memory[layer].index_copy_(0, numbers, torch.stack((keys, values), 1))

    def _grow(self, count: int) -> None:
        capacity = self.capacity + count
        for layer, memory in enumerate(self._memory):  # one by one, so that only one is held twice
            if len(memory) < capacity:
                grown = memory.new_zeros((capacity, *memory.shape[1:]))
                grown[: len(memory)] = memory
                self._memory[layer] = grown
        self.free.extend(range(capacity - 1, self.capacity - 1, -1))
        self.capacity = capacity


@attrs.frozen(kw_only=True, eq=False)
class Packing:
    """Convert between rows packed one after the other and rows padded to the longest."""

    # Rows differ in length, so layers run on packed positions; only attention needs a rectangle.

    rows: int
    longest: int
    padded: Tensor | None  #: int64[positions], indices into the rectangle; None if it has no gaps

    @classmethod
    def of(cls, counts: Sequence[int], device: torch.device) -> Packing:
        """Return the packing of rows with *counts* positions, at least one each."""
        is_filled = _is_filled(counts)
        padded = None
        if not is_filled.all():
            padded = torch.from_numpy(np.flatnonzero(is_filled)).to(device)
        return cls(rows=len(counts), longest=max(counts), padded=padded)

    def pad(self, packed: Tensor) -> Tensor:
        """Return packed [positions, ...] as [rows, longest, ...], with zeros after shorter rows."""
        if self.padded is not None:
            whole = packed.new_zeros(self.rows * self.longest, *packed.shape[1:])
            packed = whole.index_copy_(0, self.padded, packed)
        return packed.reshape(self.rows, self.longest, *packed.shape[1:])

    def pack(self, padded: Tensor) -> Tensor:
        """Return padded [rows, longest, ...] as [positions, ...]."""
        packed = padded.reshape(-1, *padded.shape[2:])
        return packed if self.padded is None else packed.index_select(0, self.padded)


def _is_filled(counts: Sequence[int]) -> NDArray[np.bool_]:
    """Return bool[rows, longest]: true for the *counts* positions of the rows, not for padding."""
    return np.arange(max(counts)) < np.array(counts)[:, None]


@attrs.frozen(kw_only=True, eq=False)
class AttentionPass:
    """
    One pass of several caches' new positions through a stack of layers.

    Hidden states are packed, [positions, width], row after row; see Packing.
    """

    pool: KVPool
    caches: list[KVCache]  #: one per row, with its new positions
    packing: Packing  #: the layout of the new positions
    position_ids: Tensor  #: int64[1, positions]
    fresh: Tensor  #: int64[positions], the places where keys and values are written
    numbers: Tensor  #: int64[rows, keys], the places of each row, padded with EMPTY
    mask: Tensor  #: bool[rows, 1, longest, keys], true where a query attends to a key

    @classmethod
    def of(cls, pool: KVPool, caches: Sequence[KVCache], counts: Sequence[int]) -> AttentionPass:
        """Return a pass that extends each of *caches* by as many positions as *counts* states."""
        extended = [cache.extended(count) for cache, count in zip(caches, counts, strict=True)]
        fresh = [cache.numbers[-count:] for cache, count in zip(extended, counts, strict=True)]
        held = [len(cache.places) for cache in extended]
        numbers = np.full((len(held), max(held)), EMPTY)
        numbers[_is_filled(held)] = np.concatenate([cache.numbers for cache in extended])
        ends = np.array([cache.positions for cache in extended])[:, None]
        positions = ends - np.array(counts)[:, None] + np.arange(max(counts))
        # Queries are padded by repeating the last one, because a softmax over no keys is NaN.
        queries = np.minimum(positions, ends - 1)[:, None, :, None]
        keys = (ends - np.array(held)[:, None] + np.arange(max(held)))[:, None, None]

        def on_device(array: NDArray[np.generic]) -> Tensor:
            return torch.from_numpy(array).to(pool.device)

        return cls(
            pool=pool,
            caches=extended,
            packing=Packing.of(counts, pool.device),
            position_ids=on_device(positions[_is_filled(counts)][None]),
            fresh=on_device(np.concatenate(fresh)),
            numbers=on_device(numbers),
            mask=on_device((keys <= queries) & (keys > queries - pool.window)),
        )

    def mix(
        self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, *, scale: float
    ) -> Tensor:
        """
        Write *keys* and *values*; return the attention of *layer*, [positions, heads * size].

        All are packed, [positions, heads, size]; keys and values may have fewer heads than queries.
        """
        self.pool.write(layer, self.fresh, keys, values)
        memory = self.pool.gathered(layer, self.numbers)
        mixed = functional.scaled_dot_product_attention(
            self.packing.pad(queries).transpose(1, 2),
            memory[:, :, 0].transpose(1, 2),
            memory[:, :, 1].transpose(1, 2),
            attn_mask=self.mask,
            scale=scale,
            enable_gqa=True,
        )
        return self.packing.pack(mixed.transpose(1, 2)).flatten(1)
