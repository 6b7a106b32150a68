"""Run the encoder and the decoder with caches that are never changed in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import mlx.core as mx

from wlk_frameworks.mlx import gelu, silu

if TYPE_CHECKING:
    from collections.abc import Sequence

Layer = tuple[mx.array, mx.array]  # keys and values, [1, heads, positions, size]


@attrs.frozen(eq=False)
class KVCache:
    """Keys and values of each layer."""

    layers: tuple[Layer, ...] = ()

    @property
    def arrays(self) -> list[mx.array]:
        """All arrays."""
        return [array for layer in self.layers for array in layer]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays)

    def truncated(self, dropped: int, *, window: int) -> KVCache:
        """Return the cache without its last *dropped* positions and those outside the window."""
        layers = self.layers
        if dropped:
            layers = tuple(
                (keys[:, :, :-dropped], values[:, :, :-dropped]) for keys, values in layers
            )
        return KVCache(tuple(_trimmed(layer, window) for layer in layers))


@attrs.frozen(kw_only=True, eq=False)
class EncoderCache:
    """The last input frames of both convolutions, and the keys and values of the encoder."""

    mel: mx.array  #: [1, 2, mels]
    middle: mx.array  #: [1, 1, width], after the first convolution
    kv_cache: KVCache = KVCache()
    frames: int = 0  #: encoder frames so far

    @classmethod
    def at_start(cls, model: Any) -> EncoderCache:
        """Return the cache before the first frame, where convolutions are padded with zeros."""
        first, second = model.encoder.conv1.weight, model.encoder.conv2.weight
        return cls(
            mel=mx.zeros((1, 2, first.shape[2]), dtype=first.dtype),
            middle=mx.zeros((1, 1, second.shape[2]), dtype=second.dtype),
        )

    @property
    def arrays(self) -> list[mx.array]:
        """All arrays."""
        return [self.mel, self.middle, *self.kv_cache.arrays]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays)


def encode(
    model: Any, mel: mx.array, cache: EncoderCache, *, window: int, downsampling: int
) -> tuple[mx.array, EncoderCache]:
    """
    Return audio embeddings, [n, width], for features, [8 n, mels], and the next cache.

    A frame attends to *window* frames, itself included.  However the features are split into calls,
    the result is that of a single pass over all of them.
    """
    encoder = model.encoder
    padded = mx.concatenate([cache.mel, mel[None].astype(cache.mel.dtype)], axis=1)
    middle = gelu(mx.conv1d(padded, encoder.conv1.weight) + encoder.conv1.bias)
    middle = mx.concatenate([cache.middle, middle], axis=1)
    states = gelu(mx.conv1d(middle, encoder.conv2.weight, stride=2) + encoder.conv2.bias)
    layers: list[Layer] = []
    for index, layer in enumerate(encoder.layers):
        before = cache.kv_cache.layers[index] if cache.kv_cache.layers else None
        attention, pair = _self_attention(
            layer.attention, layer.attn_norm(states), before, cache.frames, window
        )
        layers.append(_trimmed(pair, window))
        states = states + attention
        states = states + _feed_forward(layer.mlp, layer.ffn_norm(states))
    frames = encoder.norm(states)[0]
    new_cache = EncoderCache(
        mel=padded[:, -2:],
        middle=middle[:, -1:],
        kv_cache=KVCache(tuple(layers)),
        frames=cache.frames + frames.shape[0],
    )
    steps = frames.reshape(frames.shape[0] // downsampling, -1)
    return model.adapter.w_out(gelu(model.adapter.w_in(steps))), new_cache


def decode(
    model: Any,
    audio: mx.array,
    token_ids: Sequence[int],
    kv_cache: KVCache,
    *,
    condition: mx.array,
    position: int,
    window: int,
) -> tuple[mx.array, KVCache]:
    """
    Return the logits of n positions, float32[n, vocabulary], and keys and values up to them.

    The returned KV cache is not trimmed to the window, so that positions can be dropped.
    """
    decoder = model.language_model
    states = (decoder.embed_tokens(mx.array(list(token_ids))) + audio)[None]
    layers: list[Layer] = []
    for index, layer in enumerate(decoder.layers):
        before = kv_cache.layers[index] if kv_cache.layers else None
        attention, pair = _self_attention(
            layer.attention, layer.attn_norm(states), before, position, window
        )
        layers.append(pair)
        states = states + attention
        norm, delay = layer.ada_norm, condition.astype(states.dtype)
        scale = 1 + norm.linear_out(gelu(norm.linear_in(delay)))
        states = states + _feed_forward(layer.mlp, layer.ffn_norm(states) * scale)
    logits = decoder.embed_tokens.as_linear(decoder.norm(states))[0]
    return logits.astype(mx.float32), KVCache(tuple(layers))


def _feed_forward(mlp: Any, states: mx.array) -> Any:
    return mlp.down_proj(silu(mlp.gate_proj(states)) * mlp.up_proj(states))


def _trimmed(layer: Layer, window: int) -> Layer:
    keys, values = layer
    first = max(0, keys.shape[2] - (window - 1))
    return keys[:, :, first:], values[:, :, first:]


def _self_attention(
    attention: Any, states: mx.array, before: Layer | None, position: int, window: int
) -> tuple[mx.array, Layer]:
    """Attend from each position to the last *window*; keys and values are returned untrimmed."""
    size = attention.head_dim
    count = states.shape[1]

    def split_heads(projected: mx.array) -> mx.array:
        return projected.reshape(1, count, -1, size).transpose(0, 2, 1, 3)

    def rotate(rows: mx.array) -> mx.array:
        return mx.fast.rope(
            rows, size, traditional=True, base=attention.rope_theta, scale=1.0, offset=position
        )

    queries = rotate(split_heads(attention.q_proj(states)))
    keys = rotate(split_heads(attention.k_proj(states)))
    values = split_heads(attention.v_proj(states))
    if before is not None:
        keys = mx.concatenate([before[0], keys], axis=2)
        values = mx.concatenate([before[1], values], axis=2)
    mixed = mx.fast.scaled_dot_product_attention(
        queries, keys, values, scale=size**-0.5, mask=_window_mask(count, keys.shape[2], window)
    )
    return attention.o_proj(mixed.transpose(0, 2, 1, 3).reshape(1, count, -1)), (keys, values)


def _window_mask(count: int, total: int, window: int) -> mx.array | None:
    """Return which of *total* keys each of the last *count* positions attends to."""
    if count == 1 and total <= window:
        return None  # a single position attends to every key
    position = mx.arange(total - count, total)[:, None]
    key = mx.arange(total)[None]
    return (key <= position) & (key > position - window)
