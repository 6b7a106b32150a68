"""Passes of the encoder and the decoder over caches that are values, never changed in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from mlx import nn
import mlx.core as mx

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Cache", "EncoderState", "decode", "encode", "shortened"]

Cache = tuple[tuple[mx.array, mx.array], ...]  # keys and values of each layer


@attrs.frozen(kw_only=True, eq=False)
class EncoderState:
    """What the encoder remembers: frames in front of both convolutions, and keys and values."""

    mel: mx.array  #: 1, 2, mels
    middle: mx.array  #: 1, 1, width
    cache: Cache = ()
    frames: int = 0  #: behind the convolutions, so far

    @classmethod
    def at_start(cls, model: Any) -> EncoderState:
        """Return the state in front of the first frame: convolutions are padded with zeros."""
        first, second = model.encoder.conv1.weight, model.encoder.conv2.weight
        return cls(
            mel=mx.zeros((1, 2, first.shape[2]), dtype=first.dtype),
            middle=mx.zeros((1, 1, second.shape[2]), dtype=second.dtype),
        )

    @property
    def arrays(self) -> list[mx.array]:
        """Everything held."""
        return [self.mel, self.middle, *(one for pair in self.cache for one in pair)]


def encode(
    model: Any, mel: mx.array, state: EncoderState, *, window: int, downsampling: int
) -> tuple[mx.array, EncoderState]:
    """
    Return [n, width] of audio embeddings for [8 n, mels] features, and the next state.

    Attention reaches back *window* frames, counted with the frame itself; however the features are
    cut, the frames are those of one pass over all.
    """
    encoder = model.encoder
    padded = mx.concatenate([state.mel, mel[None].astype(state.mel.dtype)], axis=1)
    middle = nn.gelu(mx.conv1d(padded, encoder.conv1.weight) + encoder.conv1.bias)
    middle = mx.concatenate([state.middle, middle], axis=1)
    states = nn.gelu(mx.conv1d(middle, encoder.conv2.weight, stride=2) + encoder.conv2.bias)
    cache: list[tuple[mx.array, mx.array]] = []
    for index, layer in enumerate(encoder.layers):
        before = state.cache[index] if state.cache else None
        mixed, pair = _attend(
            layer.attention, layer.attn_norm(states), before, state.frames, window
        )
        cache.append(_trimmed(pair, window))
        states = states + mixed
        states = states + layer.mlp(layer.ffn_norm(states))
    frames = encoder.norm(states)[0]
    after = EncoderState(
        mel=padded[:, -2:],
        middle=middle[:, -1:],
        cache=tuple(cache),
        frames=state.frames + frames.shape[0],
    )
    return model.adapter(frames.reshape(frames.shape[0] // downsampling, -1)), after


def decode(
    model: Any,
    audio: mx.array,
    ids: Sequence[int],
    cache: Cache,
    *,
    condition: mx.array,
    offset: int,
    window: int,
) -> tuple[mx.array, Cache]:
    """
    Return float32[n, vocabulary] of logits for n positions, and keys and values up to them.

    The cache that comes back is not trimmed, so that positions can be taken back: see shortened.
    """
    decoder = model.language_model
    states = (decoder.embed_tokens(mx.array(list(ids))) + audio)[None]
    grown: list[tuple[mx.array, mx.array]] = []
    for index, layer in enumerate(decoder.layers):
        before = cache[index] if cache else None
        mixed, pair = _attend(layer.attention, layer.attn_norm(states), before, offset, window)
        grown.append(pair)
        states = states + mixed
        scaled = layer.ffn_norm(states) * (1 + layer.ada_norm(condition.astype(states.dtype)))
        states = states + layer.mlp(scaled)
    logits = decoder.embed_tokens.as_linear(decoder.norm(states))[0]
    return logits.astype(mx.float32), tuple(grown)


def shortened(grown: Cache, dropped: int, window: int) -> Cache:
    """Return a cache without its last *dropped* positions, as long as the window needs it."""
    kept = grown
    if dropped:
        kept = tuple((keys[:, :, :-dropped], values[:, :, :-dropped]) for keys, values in grown)
    return tuple(_trimmed(pair, window) for pair in kept)


def _trimmed(pair: tuple[mx.array, mx.array], window: int) -> tuple[mx.array, mx.array]:
    keys, values = pair
    first = max(0, keys.shape[2] - (window - 1))
    return keys[:, :, first:], values[:, :, first:]


def _attend(
    attention: Any,
    states: mx.array,
    before: tuple[mx.array, mx.array] | None,
    offset: int,
    window: int,
) -> tuple[mx.array, tuple[mx.array, mx.array]]:
    """Attend from each position to the *window* last ones; keys and values come back whole."""
    size = attention.head_dim
    count = states.shape[1]

    def heads(projected: mx.array) -> mx.array:
        return projected.reshape(1, count, -1, size).transpose(0, 2, 1, 3)

    def turned(rows: mx.array) -> mx.array:
        return mx.fast.rope(
            rows, size, traditional=True, base=attention.rope_theta, scale=1.0, offset=offset
        )

    queries = turned(heads(attention.q_proj(states)))
    keys, values = turned(heads(attention.k_proj(states))), heads(attention.v_proj(states))
    if before is not None:
        keys = mx.concatenate([before[0], keys], axis=2)
        values = mx.concatenate([before[1], values], axis=2)
    mixed = mx.fast.scaled_dot_product_attention(
        queries, keys, values, scale=size**-0.5, mask=_band(count, keys.shape[2], window)
    )
    return attention.o_proj(mixed.transpose(0, 2, 1, 3).reshape(1, count, -1)), (keys, values)


def _band(count: int, total: int, window: int) -> mx.array | None:
    """Return which of *total* keys the last *count* positions see: themselves and what is near."""
    if count == 1 and total <= window:
        return None  # one position sees everything that is kept
    place = mx.arange(total - count, total)[:, None]
    key = mx.arange(total)[None]
    return (key <= place) & (key > place - window)
