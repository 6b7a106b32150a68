"""What a stream carries through transformers' forward passes: three caches, as plain tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from transformers import DynamicCache
from transformers.models.voxtral_realtime import modeling_voxtral_realtime

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["StreamState", "frozen_cache", "frozen_padding", "thawed_cache", "thawed_padding"]

Layers = tuple[tuple["Tensor", "Tensor"], ...]


@attrs.frozen(kw_only=True, eq=False)
class StreamState:
    """
    A point of a run between two calls; never changed, so that a call can be repeated.

    `given` are the inputs of the decoder known already: the rest of the prompt, or the last
    choice.
    """

    positions: int  #: of the decoder so far
    given: tuple[int, ...]
    decoder: Layers
    encoder: Layers
    padding: tuple[tuple[str, Tensor], ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return self.encoder_bytes + sum(map(_bytes, (one for pair in self.decoder for one in pair)))

    @property
    def encoder_bytes(self) -> int:
        """Bytes of those that the encoder and its convolutions need."""
        held = [one for pair in self.encoder for one in pair]
        return sum(map(_bytes, [*held, *(tensor for _, tensor in self.padding)]))


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def frozen_cache(cache: Any) -> Layers:
    """Return keys and values of each layer; an update makes new tensors and leaves these."""
    return tuple((layer.keys, layer.values) for layer in cache.layers)


def thawed_cache(layers: Layers, positions: int, config: Any) -> Any:
    """Return a cache of the model part with this *config* that holds what *layers* hold."""
    cache: Any = DynamicCache(config=config)
    for layer, (keys, values) in zip(cache.layers, layers, strict=True):
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
        layer.cumulative_length = positions
    return cache


def frozen_padding(cache: Any) -> tuple[tuple[str, Tensor], ...]:
    """Return what the convolutions remember."""
    return tuple((name, layer.cache) for name, layer in cache.layers.items())


def thawed_padding(padding: tuple[tuple[str, Tensor], ...]) -> Any:
    """Return a padding cache that may be written to: transformers updates it in place."""
    modeling: Any = modeling_voxtral_realtime
    cache = modeling.VoxtralRealtimeConv1dPaddingCache()
    for name, tensor in padding:
        layer = cache.layers[name] = modeling.VoxtralRealtimeConv1dCacheLayer()
        layer.cache = tensor.clone()
        layer.in_channels, layer.left_pad = tensor.shape[1:]
        layer.is_initialized = True
    return cache
