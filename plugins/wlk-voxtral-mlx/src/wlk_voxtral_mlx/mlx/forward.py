"""Run the encoder and the decoder, with caches of what earlier passes computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import mlx.core as mx

from wlk_frameworks.mlx import gelu, silu
from wlk_voxtral_mlx.mlx.kv_cache import KVCache

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_voxtral_mlx.mlx.kv_cache import Extension


@attrs.frozen(kw_only=True, eq=False)
class EncoderCache:
    """The last input frames of both convolutions, and the keys and values of the encoder."""

    mel: mx.array  #: [1, 2, mels]
    middle: mx.array  #: [1, 1, width], after the first convolution
    kv_cache: KVCache = attrs.field(factory=KVCache)

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
    extension = cache.kv_cache.extended(states.shape[1], window=window)
    mask = _window_mask(extension, window)
    for index, layer in enumerate(encoder.layers):
        normed = layer.attn_norm(states)
        states = states + _self_attention(layer.attention, normed, extension, index, mask)
        states = states + _feed_forward(layer.mlp, layer.ffn_norm(states))
    frames = encoder.norm(states)[0]
    new_cache = EncoderCache(mel=padded[:, -2:], middle=middle[:, -1:], kv_cache=extension.cache)
    steps = frames.reshape(frames.shape[0] // downsampling, -1)
    return model.adapter.w_out(gelu(model.adapter.w_in(steps))), new_cache


def decode(
    model: Any,
    audio: mx.array,
    token_ids: Sequence[int],
    kv_cache: KVCache,
    *,
    condition: mx.array,
    window: int,
    planned: int = 0,
) -> tuple[mx.array, KVCache]:
    """
    Return the logits of n positions, float32[n, vocabulary], and keys and values up to them.

    *planned* is the number of positions that this pass and the next ones of the call add.
    """
    decoder = model.language_model
    states = (decoder.embed_tokens(mx.array(list(token_ids))) + audio)[None]
    extension = kv_cache.extended(len(token_ids), window=window, planned=planned)
    mask = _window_mask(extension, window)
    for index, layer in enumerate(decoder.layers):
        normed = layer.attn_norm(states)
        states = states + _self_attention(layer.attention, normed, extension, index, mask)
        norm, delay = layer.ada_norm, condition.astype(states.dtype)
        scale = 1 + norm.linear_out(gelu(norm.linear_in(delay)))
        states = states + _feed_forward(layer.mlp, layer.ffn_norm(states) * scale)
    logits = decoder.embed_tokens.as_linear(decoder.norm(states))[0]
    return logits.astype(mx.float32), extension.cache


def _feed_forward(mlp: Any, states: mx.array) -> Any:
    return mlp.down_proj(silu(mlp.gate_proj(states)) * mlp.up_proj(states))


def _self_attention(
    attention: Any, states: mx.array, extension: Extension, index: int, mask: mx.array | None
) -> Any:
    """Write the keys and values of layer *index*, and attend from each new position."""
    size, base = attention.head_dim, attention.rope_theta
    count = states.shape[1]

    def split_heads(projected: mx.array) -> mx.array:
        return projected.reshape(1, count, -1, size).transpose(0, 2, 1, 3)

    def rotate(rows: mx.array) -> mx.array:
        offset = extension.start
        return mx.fast.rope(rows, size, traditional=True, base=base, scale=1.0, offset=offset)

    queries = rotate(split_heads(attention.q_proj(states)))
    keys = rotate(split_heads(attention.k_proj(states)))
    keys, values = extension.write(index, keys, split_heads(attention.v_proj(states)))
    mixed = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=size**-0.5, mask=mask)
    return attention.o_proj(mixed.transpose(0, 2, 1, 3).reshape(1, count, -1))


def _window_mask(extension: Extension, window: int) -> mx.array | None:
    """Return which of the visible positions each new one attends to; None if to all."""
    if extension.start + 1 == extension.cache.end:
        return None
    position = mx.arange(extension.start, extension.cache.end)[:, None]
    key = mx.arange(extension.first, extension.cache.end)[None]
    return (key <= position) & (key > position - window)
