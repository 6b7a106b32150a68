"""Caches of transformers as values: what a stream carries from one forward pass to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import torch
from transformers import DynamicCache
from transformers.models.voxtral_realtime import modeling_voxtral_realtime

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["EncoderCache", "KVCache"]


@attrs.frozen(eq=False)
class KVCache:
    """Keys and values of each layer, [1, heads, positions, size]; never changed in place."""

    layers: tuple[tuple[Tensor, Tensor], ...]

    @classmethod
    def of(cls, cache: Any) -> KVCache:
        """Take what a cache of transformers holds; its updates make new tensors."""
        return cls(tuple((layer.keys, layer.values) for layer in cache.layers))

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.nbytes for layer in self.layers for tensor in layer)

    def unpacked(self, positions: int, config: Any) -> Any:
        """Return a cache of transformers for the model part with *config*, after *positions*."""
        cache: Any = DynamicCache(config=config)
        for layer, (keys, values) in zip(cache.layers, self.layers, strict=True):
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values = keys, values
            layer.cumulative_length = positions
        return cache

    def truncated(
        self, before: KVCache | None, *, added: int, kept: int, window: int | None
    ) -> KVCache:
        """
        Return the cache with *kept* of the *added* last positions.

        transformers drops keys that have left the *window*; they are taken from the cache
        *before* those positions.
        """
        olds = before.layers if before else ((None, None),) * len(self.layers)
        return KVCache(
            tuple(
                (
                    _truncated(keys, old_keys, added, kept, window),
                    _truncated(values, old_values, added, kept, window),
                )
                for (keys, values), (old_keys, old_values) in zip(self.layers, olds, strict=True)
            )
        )


def _truncated(
    tensor: Tensor, before: Tensor | None, added: int, kept: int, window: int | None
) -> Tensor:
    fresh = tensor[:, :, tensor.shape[2] - added :][:, :, :kept]
    whole = fresh if before is None else torch.cat([before, fresh], dim=2)
    return whole if window is None else whole[:, :, -(window - 1) :]


@attrs.frozen(kw_only=True, eq=False)
class EncoderCache:
    """Keys and values of the encoder, and the last frames in front of its convolutions."""

    positions: int  #: encoder frames so far
    kv_cache: KVCache
    padding: tuple[tuple[str, Tensor], ...]  #: by the name of the convolution

    @classmethod
    def of(cls, kv_cache: Any, padding_cache: Any, *, positions: int) -> EncoderCache:
        """Take what the caches of transformers hold after *positions* encoder frames."""
        return cls(
            positions=positions,
            kv_cache=KVCache.of(kv_cache),
            padding=tuple((name, layer.cache) for name, layer in padding_cache.layers.items()),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return self.kv_cache.nbytes + sum(tensor.nbytes for _, tensor in self.padding)

    def unpacked(self, config: Any) -> Any:
        """Return the KV cache as one of transformers."""
        return self.kv_cache.unpacked(self.positions, config)

    def unpacked_padding(self) -> Any:
        """Return a padding cache of copies, because transformers updates it in place."""
        modeling: Any = modeling_voxtral_realtime
        cache = modeling.VoxtralRealtimeConv1dPaddingCache()
        for name, tensor in self.padding:
            layer = cache.layers[name] = modeling.VoxtralRealtimeConv1dCacheLayer()
            layer.cache = tensor.clone()
            layer.in_channels, layer.left_pad = tensor.shape[1:]
            layer.is_initialized = True
        return cache
