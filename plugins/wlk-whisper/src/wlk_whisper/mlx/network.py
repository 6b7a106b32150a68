"""Run Whisper's layers on MLX with mlx-whisper's modules."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import mlx.core as mx
from mlx_whisper.whisper import sinusoids
import numpy as np

from wlk_frameworks.mlx import gelu
from wlk_whisper.engine.features import following_silence, silence_features
from wlk_whisper.engine.network import MEL_FRAMES_PER_ENCODER_FRAME, CrossKeysValues, DecoderOutput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlx_whisper.whisper import MultiHeadAttention, ResidualAttentionBlock, Whisper
    from numpy.typing import NDArray

    from wlk_frameworks.mlx import SharedStream
    from wlk_whisper.engine.alignment_heads import Heads

_KeysValues = tuple[mx.array, mx.array]  # each [rows, heads, positions, head size]


class MlxNetwork:
    """
    A Whisper on MLX, shared by all streams; see Network.

    No lazy array outlives a call and the modules never change, so any thread may make the next
    call.
    """

    def __init__(
        self, whisper: Whisper, *, alignment_heads: Heads, stream: SharedStream, dtype: mx.Dtype
    ) -> None:
        self._whisper = whisper
        self._stream = stream
        self._dtype = dtype
        dims = whisper.dims
        self.alignment_heads = alignment_heads
        self.n_mels = int(dims.n_mels)
        self.n_vocab = int(dims.n_vocab)
        self.n_text_ctx = int(dims.n_text_ctx)
        # The encoder's copy has a private name.
        with stream.acquire():
            embedding = sinusoids(dims.n_audio_ctx, dims.n_audio_state).astype(dtype)
            mx.eval(embedding)
        self._positional_embedding = embedding

    def encode(self, features: NDArray[np.float32], *, silence_stride: int = 0) -> CrossKeysValues:
        """Encode float32[mels, frames]; with *silence_stride* the output of silence follows."""
        silence = self.silence.cross_kv if silence_stride else ()
        encoder, decoder = self._whisper.encoder, self._whisper.decoder
        with self._stream.acquire():
            x = mx.array(features.T[None]).astype(self._dtype)
            x = gelu(encoder.conv1(x))
            x = gelu(encoder.conv2(x))
            x = x + self._positional_embedding[: x.shape[1]]
            for block in encoder.blocks:
                x, _ = _self_attention(block, x, None)
                x = _mlp(block, x)
            x = encoder.ln_post(x)
            cross_kv = tuple(_keys_and_values(block.cross_attn, x) for block in decoder.blocks)
            if silence:
                kept = following_silence(x.shape[1], silence_stride)
                cross_kv = tuple(
                    (
                        mx.concatenate([keys, silent_keys[:, :, kept]], axis=2),
                        mx.concatenate([values, silent_values[:, :, kept]], axis=2),
                    )
                    for (keys, values), (silent_keys, silent_values) in zip(
                        cross_kv, silence, strict=True
                    )
                )
            mx.eval(cross_kv)
        return CrossKeysValues(frames=cross_kv[0][0].shape[2], cross_kv=cross_kv)

    @cached_property
    def silence(self) -> CrossKeysValues:
        """The encoder output of a window of silence."""
        frames = MEL_FRAMES_PER_ENCODER_FRAME * len(self._positional_embedding)
        return self.encode(silence_features(self.n_mels, frames))

    def new_decoder(self, encoder_output: CrossKeysValues) -> MlxDecoder:
        """Return a decoder of one row without tokens."""
        return MlxDecoder(self._whisper, encoder_output, self.alignment_heads, self._stream)


class MlxDecoder:
    """The decoder over one encoder output; see Decoder.  A call that fails changes nothing."""

    def __init__(
        self,
        whisper: Whisper,
        encoder_output: CrossKeysValues,
        alignment_heads: Heads,
        stream: SharedStream,
    ) -> None:
        self._decoder = whisper.decoder
        self._cross_kv = encoder_output.cross_kv
        self._alignment_heads = alignment_heads
        self._stream = stream
        self._length = 0
        self._kv_cache: tuple[_KeysValues, ...] | None = None

    def forward(
        self,
        tokens: NDArray[np.int64],
        *,
        logits_to_keep: Sequence[int] = (-1,),
        output_attention: bool = False,
    ) -> DecoderOutput:
        """Append int64[rows, new] to the rows and run them; one transfer to the host."""
        with self._stream.acquire():
            logits, attention, kv_cache = self._layers(
                tokens, list(logits_to_keep), output_attention=output_attention
            )
            mx.eval(logits, attention, kv_cache)
        self._kv_cache = kv_cache
        self._length += tokens.shape[1]
        return DecoderOutput(
            logits=np.array(logits),
            cross_attention=None if attention is None else np.array(attention),
        )

    def reorder_cache(self, rows: Sequence[int]) -> None:
        """Make new row i continue from old row ``rows[i]``."""
        if self._kv_cache is not None:
            with self._stream.acquire():
                order = mx.array(list(rows))
                kv_cache = tuple((keys[order], values[order]) for keys, values in self._kv_cache)
                mx.eval(kv_cache)
            self._kv_cache = kv_cache

    def _layers(
        self, tokens: NDArray[np.int64], logits_to_keep: list[int], *, output_attention: bool
    ) -> tuple[mx.array, mx.array | None, tuple[_KeysValues, ...]]:
        """Return logits, cross attention and the new KV cache, unevaluated."""
        decoder = self._decoder
        end = self._length + tokens.shape[1]
        positions = decoder.positional_embedding[self._length : end]
        x = decoder.token_embedding(mx.array(tokens)) + positions
        kv_cache: list[_KeysValues] = []
        attention: list[mx.array] = []
        for layer, block in enumerate(decoder.blocks):
            past = self._kv_cache[layer] if self._kv_cache else None
            x, keys_values = _self_attention(block, x, past, causal=True)
            kv_cache.append(keys_values)
            heads = [head for index, head in self._alignment_heads if index == layer]
            x, weights = _cross_attention(
                block, x, self._cross_kv[layer], heads if output_attention else []
            )
            if weights is not None:
                attention.append(weights)
            x = _mlp(block, x)
        kept = decoder.ln(x[:, mx.array(logits_to_keep)])
        logits = decoder.token_embedding.as_linear(kept).astype(mx.float32)
        stacked = mx.concatenate(attention, axis=1) if output_attention else None
        return logits, stacked, tuple(kv_cache)


def _self_attention(
    block: ResidualAttentionBlock, x: mx.array, past: _KeysValues | None, *, causal: bool = False
) -> tuple[mx.array, _KeysValues]:
    """Return x after self-attention, and all keys and values so far."""
    attention = block.attn
    normal = block.attn_ln(x)
    keys, values = _keys_and_values(attention, normal)
    if past is not None:
        keys = mx.concatenate([past[0], keys], axis=2)
        values = mx.concatenate([past[1], values], axis=2)
    queries = _split_heads(attention.query(normal), attention.n_head)
    # MLX aligns the mask with the end of the keys, so new positions attend to the whole cache.
    mask = "causal" if causal and x.shape[1] > 1 else None
    mixed = mx.fast.scaled_dot_product_attention(
        queries, keys, values, scale=queries.shape[-1] ** -0.5, mask=mask
    )
    return x + attention.out(_merge_heads(mixed)), (keys, values)


def _cross_attention(
    block: ResidualAttentionBlock, x: mx.array, cross_kv: _KeysValues, heads: list[int]
) -> tuple[mx.array, mx.array | None]:
    """
    Return x after cross-attention, and the weights float32[rows, heads, new, frames] of *heads*.

    All rows share keys and values, so their queries are computed as one row.  Without heads the
    weights are None.
    """
    attention = block.cross_attn
    rows, new, width = x.shape
    keys, values = cross_kv
    projected = attention.query(block.cross_attn_ln(x)).reshape(1, rows * new, width)
    queries = _split_heads(projected, attention.n_head)
    scale = queries.shape[-1] ** -0.5
    mixed = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale)
    x = x + attention.out(_merge_heads(mixed).reshape(rows, new, width))
    if not heads:
        return x, None
    order = mx.array(heads)
    scores = (queries[:, order] * scale) @ keys[:, order].swapaxes(-1, -2)
    weights = mx.softmax(scores.astype(mx.float32), axis=-1)
    return x, weights.reshape(len(heads), rows, new, -1).swapaxes(0, 1)


def _mlp(block: ResidualAttentionBlock, x: mx.array) -> mx.array:
    """Return x after the block's two dense layers."""
    return x + block.mlp2(gelu(block.mlp1(block.mlp_ln(x))))


def _keys_and_values(attention: MultiHeadAttention, x: mx.array) -> _KeysValues:
    return (
        _split_heads(attention.key(x), attention.n_head),
        _split_heads(attention.value(x), attention.n_head),
    )


def _split_heads(x: mx.array, heads: int) -> mx.array:
    """Return [rows, positions, heads * size] as [rows, heads, positions, size]."""
    rows, positions, _ = x.shape
    return x.reshape(rows, positions, heads, -1).swapaxes(1, 2)


def _merge_heads(x: mx.array) -> mx.array:
    """Return [rows, heads, positions, size] as [rows, positions, heads * size]."""
    rows, _, positions, _ = x.shape
    return x.swapaxes(1, 2).reshape(rows, positions, -1)
