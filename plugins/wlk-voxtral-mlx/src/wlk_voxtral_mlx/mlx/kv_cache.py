"""Keys and values of a stack of attention layers, written in place to memory allocated ahead."""

from __future__ import annotations

import weakref

import attrs
import mlx.core as mx

# MLX keeps freed memory for later requests of about the same size.  Arrays that grow with each
# pass leave pieces that fit no later request: with a window of 8192 positions, concatenation left
# 8.5 GB after 64 s.  Here arrays have spare positions, and are replaced once in many passes.
MAX_SPARE = 256  # positions, 20 s of the decoder


@attrs.define(eq=False)
class _Layer:
    """Arrays of a layer, [1, heads, capacity, size], whose first slot has position `origin`."""

    keys: mx.array
    values: mx.array
    origin: int

    @classmethod
    def allocated(cls, keys: mx.array, values: mx.array, *, origin: int, capacity: int) -> _Layer:
        """Return a layer that starts with *keys* and *values*."""
        spare = [(0, 0), (0, 0), (0, capacity - keys.shape[2]), (0, 0)]
        return cls(mx.pad(keys, spare), mx.pad(values, spare), origin)

    @property
    def capacity(self) -> int:
        """The number of slots."""
        return int(self.keys.shape[2])

    def between(self, first: int, end: int) -> tuple[mx.array, mx.array]:
        """Return views of the positions from *first* up to *end*."""
        slots = slice(first - self.origin, end - self.origin)
        return self.keys[:, :, slots], self.values[:, :, slots]

    def write(self, first: int, keys: mx.array, values: mx.array) -> None:
        """Write positions from *first* on; in place, because no view of earlier passes is left."""
        slots = slice(first - self.origin, first - self.origin + keys.shape[2])
        self.keys[:, :, slots] = keys
        self.values[:, :, slots] = values

    def copied(self, first: int, end: int, *, capacity: int) -> _Layer:
        """Return a computed copy of the positions from *first* up to *end*."""
        keys, values = self.between(first, end)
        copy = _Layer.allocated(keys, values, origin=first, capacity=capacity)
        mx.eval(copy.keys, copy.values)
        return copy


class _Memory:
    """Layers, and the caches whose positions are in them."""

    def __init__(self) -> None:
        self.layers: list[_Layer] = []
        self.caches: weakref.WeakSet[KVCache] = weakref.WeakSet()


class KVCache:
    """
    The keys and values of each layer up to a position, as far back as the attention window.

    A cache stays valid when it is extended, so that a call can be repeated.  It shares memory with
    the longer one, unless another cache in use has already taken the positions after it.
    """

    def __init__(self, memory: _Memory | None = None, *, end: int = 0) -> None:
        self._memory = _Memory() if memory is None else memory
        self._memory.caches.add(self)
        self.end = end  #: the number of positions so far, including those outside the window

    @property
    def arrays(self) -> list[mx.array]:
        """All arrays."""
        return [array for layer in self._memory.layers for array in (layer.keys, layer.values)]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, including spare positions."""
        return sum(array.nbytes for array in self.arrays)

    def extended(self, count: int, *, window: int, planned: int = 0) -> Extension:
        """
        Extend the cache by *count* positions, each of which attends to *window*, itself included.

        *planned* is the number of positions that all passes of the call will add.  New memory is
        allocated for all of them, because this is cheapest in the first pass: while a call runs,
        its first cache is kept, and with it the memory that later passes would replace.
        """
        first = max(0, self.end - (window - 1))
        spare = max(1, min(MAX_SPARE, window // 8))
        capacity = ((self.end - first + max(count, planned)) // spare + 1) * spare
        others = [cache for cache in self._memory.caches if cache is not self]
        is_taken = any(cache.end > self.end for cache in others)
        memory = self._memory
        if is_taken or self._is_full(max(count, planned)):
            memory = _Memory() if others else self._memory
            self._copy_to(memory, first, capacity)
        return Extension(
            cache=KVCache(memory, end=self.end + count),
            layers=memory.layers,
            first=first,
            start=self.end,
            capacity=capacity,
        )

    def drop(self, count: int) -> None:
        """Drop the last *count* positions."""
        self.end -= count

    def _is_full(self, count: int) -> bool:
        end = self.end + count
        return any(layer.origin + layer.capacity < end for layer in self._memory.layers)

    def _copy_to(self, memory: _Memory, first: int, capacity: int) -> None:
        """Copy the positions from *first* on to *memory*, which may be the cache's own."""
        for index, layer in enumerate(self._memory.layers):
            memory.layers[index : index + 1] = [layer.copied(first, self.end, capacity=capacity)]


@attrs.frozen(kw_only=True, eq=False)
class Extension:
    """The positions that a pass adds to a cache."""

    cache: KVCache  #: with the new positions, once all layers are written
    layers: list[_Layer]
    first: int  #: the first position that any of the new ones attends to
    start: int  #: the first new position
    capacity: int  #: slots of a layer that is allocated

    @property
    def visible(self) -> int:
        """The number of positions from `first` on, new ones included."""
        return self.cache.end - self.first

    def write(self, index: int, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Write the new positions of a layer; return the keys and values of the visible ones."""
        if index == len(self.layers):  # only at the start of an utterance
            layer = _Layer.allocated(keys, values, origin=self.start, capacity=self.capacity)
            self.layers.append(layer)
        else:
            self.layers[index].write(self.start, keys, values)
        return self.layers[index].between(self.first, self.cache.end)
