"""Attention of several streams in one pass on torch, over keys and values in a common pool."""

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
EMPTY = 0  # the place that pads shorter caches: zeros, because masked NaN would still spread


class _Place:
    """A place of a pool; it returns there when the last cache that has it is collected."""

    __slots__ = ("_free", "number")

    def __init__(self, free: list[int]) -> None:
        self._free = free
        self.number = free.pop()

    def __del__(self) -> None:
        self._free.append(self.number)  # list.append is atomic; this runs in any thread


@attrs.frozen(kw_only=True, eq=False)
class KVCache:
    """The keys and values of a row up to a position; immutable, so that a call can be repeated."""

    # A place is written once, by the pass that it was taken for.  So caches that begin alike share
    # places, and none is ever copied.

    pool: KVPool
    places: tuple[_Place, ...] = ()  #: of the newest positions
    numbers: NDArray[np.int64] = attrs.field(factory=lambda: np.zeros(0, np.int64))  #: of places
    positions: int = 0  #: so far, those that have left the window included

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
        """Return the cache with *count* positions to write, without those outside the window."""
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
    The memory of all caches of a stack of attention layers, a place for each position.

    It grows when no place is free, and keeps its memory for later streams.  Only one thread at a
    time may use a pool.  Each of *layers* has *heads* of keys and values, each head of *size*; a
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
        self.capacity = 1  #: places allocated, first EMPTY
        shape = (1, 2, heads, size)
        self._memory = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(layers)]

    def new_cache(self) -> KVCache:
        """Return a cache without positions."""
        return KVCache(pool=self)

    def taken(self, count: int) -> tuple[_Place, ...]:
        """Return *count* places that no cache has; what they contain is undefined."""
        missing = count - len(self.free)
        if missing > 0:
            self._grow(max(missing, LEAST_GROWTH, round((GROWTH - 1) * self.capacity)))
        return tuple(_Place(self.free) for _ in range(count))

    def gathered(self, layer: int, numbers: Tensor) -> Tensor:
        """Return the places int64[rows, n] as [rows, n, 2 (keys and values), heads, size]."""
        memory = self._memory[layer]
        return memory.index_select(0, numbers.flatten()).view(*numbers.shape, *memory.shape[1:])

    def write(self, layer: int, numbers: Tensor, keys: Tensor, values: Tensor) -> None:
        """Write [n, heads, size] to the places int64[n]."""
        self._memory[layer].index_copy_(0, numbers, torch.stack((keys, values), 1))

    def _grow(self, count: int) -> None:
        capacity = self.capacity + count
        for layer, memory in enumerate(self._memory):  # one at a time, to hold few of them twice
            if len(memory) < capacity:
                grown = memory.new_zeros((capacity, *memory.shape[1:]))
                grown[: len(memory)] = memory
                self._memory[layer] = grown
        self.free.extend(range(capacity - 1, self.capacity - 1, -1))
        self.capacity = capacity


@attrs.frozen(kw_only=True, eq=False)
class Packing:
    """Conversion between packed rows, one after the other, and rows padded to the longest."""

    # Layers run on packed positions, because rows differ in length.  Only attention needs a
    # rectangle.

    rows: int
    longest: int
    padded: Tensor | None  #: int64[positions], places in the rectangle; None if all are filled

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
    """Return bool[rows, longest]: where a rectangle of rows with *counts* positions has one."""
    return np.arange(max(counts)) < np.array(counts)[:, None]


@attrs.frozen(kw_only=True, eq=False)
class AttentionPass:
    """
    A batch of new positions of several caches on its way through a stack of layers.

    Hidden states are packed, [positions, width], row after row; see Packing.
    """

    pool: KVPool
    caches: list[KVCache]  #: of each row, with its new positions
    packing: Packing  #: of the new positions
    position_ids: Tensor  #: int64[1, positions]
    fresh: Tensor  #: int64[positions], the places where keys and values are written
    numbers: Tensor  #: int64[rows, keys], the places of each row, padded with EMPTY
    mask: Tensor  #: bool[rows, 1, longest, keys], true where a query attends to a key

    @classmethod
    def of(cls, pool: KVPool, caches: Sequence[KVCache], counts: Sequence[int]) -> AttentionPass:
        """Extend *caches* by *counts* positions."""
        extended = [cache.extended(n) for cache, n in zip(caches, counts, strict=True)]
        held = [len(cache.places) for cache in extended]
        numbers = np.full((len(held), max(held)), EMPTY)
        numbers[_is_filled(held)] = np.concatenate([cache.numbers for cache in extended])
        ends = np.array([cache.positions for cache in extended])[:, None]
        positions = ends - np.array(counts)[:, None] + np.arange(max(counts))
        # A padded query repeats the last one, because a softmax over no keys is NaN.
        queries = np.minimum(positions, ends - 1)[:, None, :, None]
        keys = (ends - np.array(held)[:, None] + np.arange(max(held)))[:, None, None]

        def on_device(array: NDArray[np.generic]) -> Tensor:
            return torch.from_numpy(array).to(pool.device)

        return cls(
            pool=pool,
            caches=extended,
            packing=Packing.of(counts, pool.device),
            position_ids=on_device(positions[_is_filled(counts)][None]),
            fresh=on_device(
                np.concatenate([c.numbers[-n:] for c, n in zip(extended, counts, strict=True)])
            ),
            numbers=on_device(numbers),
            mask=on_device((keys <= queries) & (keys > queries - pool.window)),
        )

    def mix(
        self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, *, scale: float
    ) -> Tensor:
        """
        Write the keys and values, and return the attention of *layer*, [positions, heads * size].

        All are packed, [positions, heads, size]; keys and values may have fewer heads.
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
