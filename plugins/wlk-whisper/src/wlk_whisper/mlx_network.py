"""Whisper's layers on MLX: what mlx-whisper loads, run behind the seam of the decoder."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import attrs
import mlx.core as mx
from mlx_whisper.whisper import sinusoids
import numpy as np

from wlk_whisper.decoder.network import POSITION_FRAMES, Forward

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlx_whisper.whisper import MultiHeadAttention, ResidualAttentionBlock, Whisper
    from numpy.typing import NDArray

    from wlk_whisper.heads import Heads
    from wlk_whisper.mlx_device import Commands

__all__ = ["MlxNetwork"]

_Pair = tuple[mx.array, mx.array]  # keys and values, [rows, heads, positions, size]


@attrs.frozen(kw_only=True, eq=False)
class MlxEncoded:
    """What the decoder's layers look at: their keys and values of the encoder's positions."""

    positions: int
    layers: tuple[_Pair, ...]


class MlxNetwork:
    """
    A Whisper on MLX, shared by all streams; see Network.

    Nothing lazy outlives a call, and the modules are only read: any thread may make the next call.
    """

    def __init__(
        self, whisper: Whisper, *, alignment_heads: Heads, commands: Commands, dtype: mx.Dtype
    ) -> None:
        self._whisper = whisper
        self._heads = alignment_heads
        self._commands = commands
        self._dtype = dtype
        dims = whisper.dims
        # The encoder keeps its own under a private name.
        with commands.turn():
            places = sinusoids(dims.n_audio_ctx, dims.n_audio_state).astype(dtype)
            mx.eval(places)
        self._places = places

    @property
    def mels(self) -> int:
        """Mel bands of a frame."""
        return int(self._whisper.dims.n_mels)

    @property
    def vocabulary(self) -> int:
        """Rows of the logits."""
        return int(self._whisper.dims.n_vocab)

    @property
    def text_positions(self) -> int:
        """Positions the decoder has room for."""
        return int(self._whisper.dims.n_text_ctx)

    @property
    def alignment_heads(self) -> Heads:
        """The (layer, head) pairs whose attention is returned, in rising order."""
        return self._heads

    def encode(self, features: NDArray[np.float32]) -> MlxEncoded:
        """
        Encode float32[mels, frames] with as many positions as that has, 20 ms each.

        The keys and values of all decoder layers are computed with it: every run needs them.

        Raises:
            ValueError: the features have another shape.

        """
        most = POSITION_FRAMES * len(self._places)
        bands, frames = features.shape
        if bands != self.mels or frames % POSITION_FRAMES or not 0 < frames <= most:
            raise ValueError(
                f"expected features of {self.mels} bands and an even number of frames up to "
                f"{most}, got {bands} and {frames}"
            )
        encoder, decoder = self._whisper.encoder, self._whisper.decoder
        with self._commands.turn():
            x = mx.array(features.T[None]).astype(self._dtype)
            x = _gelu(encoder.conv1(x))
            x = _gelu(encoder.conv2(x))
            x = x + self._places[: x.shape[1]]
            for block in encoder.blocks:
                x, _ = _listen(block, x, None)
                x = _digest(block, x)
            x = encoder.ln_post(x)
            layers = tuple(_keys_and_values(block.cross_attn, x) for block in decoder.blocks)
            mx.eval(layers)
        return MlxEncoded(positions=frames // POSITION_FRAMES, layers=layers)

    def begin(self, encoded: MlxEncoded) -> MlxRun:
        """Return a run of one row that has no token yet."""
        return MlxRun(self._whisper, encoded, self._heads, self._commands)


class MlxRun:
    """The decoder over one encoded stretch; see Run.  A call that fails changes nothing."""

    def __init__(
        self, whisper: Whisper, encoded: MlxEncoded, heads: Heads, commands: Commands
    ) -> None:
        self._decoder = whisper.decoder
        self._room = int(whisper.dims.n_text_ctx)
        self._encoded = encoded
        self._heads = heads
        self._commands = commands
        self._rows = 1
        self._length = 0
        self._caches: tuple[_Pair, ...] | None = None

    def forward(
        self, tokens: NDArray[np.int64], *, keep: Sequence[int] = (-1,), attend: bool = False
    ) -> Forward:
        """
        Run int64[rows, new] behind what each row has so far; one transfer to the host.

        Raises:
            ValueError: the tokens have another number of rows, or find no room.

        """
        rows, new = tokens.shape
        if rows != self._rows or new < 1 or self._length + new > self._room:
            raise ValueError(
                f"expected tokens of {self._rows} rows and 1 to {self._room - self._length} new "
                f"positions, got {rows} and {new}"
            )
        with self._commands.turn():
            logits, attention, caches = self._layers(tokens, list(keep), attend=attend)
            mx.eval(logits, attention, caches)
        self._caches = caches
        self._length += new
        return Forward(
            logits=np.array(logits),
            attention=None if attention is None else np.array(attention),
        )

    def reorder(self, rows: Sequence[int]) -> None:
        """Let row i go on from what row ``rows[i]`` was."""
        if self._caches is not None:
            with self._commands.turn():
                order = mx.array(list(rows))
                caches = tuple((keys[order], values[order]) for keys, values in self._caches)
                mx.eval(caches)
            self._caches = caches
        self._rows = len(rows)

    def _layers(
        self, tokens: NDArray[np.int64], keep: list[int], *, attend: bool
    ) -> tuple[mx.array, mx.array | None, tuple[_Pair, ...]]:
        """Return logits, attention and the new caches, not evaluated."""
        decoder = self._decoder
        places = decoder.positional_embedding[self._length : self._length + tokens.shape[1]]
        x = decoder.token_embedding(mx.array(tokens)) + places
        caches: list[_Pair] = []
        seen: list[mx.array] = []
        for layer, block in enumerate(decoder.blocks):
            x, cache = _listen(block, x, self._caches[layer] if self._caches else None, causal=True)
            caches.append(cache)
            heads = [head for place, head in self._heads if place == layer] if attend else []
            x, weights = _look(block, x, self._encoded.layers[layer], heads)
            seen += weights
            x = _digest(block, x)
        chosen = decoder.ln(x[:, mx.array(keep)])
        logits = decoder.token_embedding.as_linear(chosen).astype(mx.float32)
        return logits, mx.concatenate(seen, axis=1) if attend else None, tuple(caches)


def _listen(
    block: ResidualAttentionBlock, x: mx.array, cache: _Pair | None, *, causal: bool = False
) -> tuple[mx.array, _Pair]:
    """Return x after its attention to itself and what was before, and keys and values of both."""
    attention = block.attn
    normal = block.attn_ln(x)
    keys, values = _keys_and_values(attention, normal)
    if cache is not None:
        keys = mx.concatenate([cache[0], keys], axis=2)
        values = mx.concatenate([cache[1], values], axis=2)
    queries = _divided(attention.query(normal), attention.n_head)
    # MLX aligns the mask with the end of the keys: what is cached is seen by all.
    mask = "causal" if causal and x.shape[1] > 1 else None
    heard = mx.fast.scaled_dot_product_attention(
        queries, keys, values, scale=_scale(queries), mask=mask
    )
    return x + attention.out(_united(heard)), (keys, values)


def _look(
    block: ResidualAttentionBlock, x: mx.array, seen: _Pair, heads: list[int]
) -> tuple[mx.array, list[mx.array]]:
    """
    Return x after its attention to the encoder's positions, and that of *heads*.

    All rows look at the same keys and values, so they do it as if they were one row: the weights
    are float32[rows, heads, new, positions], none where no heads are named.
    """
    attention = block.cross_attn
    rows, new, width = x.shape
    keys, values = seen
    asked = attention.query(block.cross_attn_ln(x)).reshape(1, rows * new, width)
    queries = _divided(asked, attention.n_head)
    scale = _scale(queries)
    heard = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale)
    x = x + attention.out(_united(heard).reshape(rows, new, width))
    if not heads:
        return x, []
    order = mx.array(heads)
    likeness = (queries[:, order] * scale) @ keys[:, order].swapaxes(-1, -2)
    weights = mx.softmax(likeness.astype(mx.float32), axis=-1)
    apart = weights.reshape(len(heads), rows, new, -1).swapaxes(0, 1)
    return x, [apart]


def _digest(block: ResidualAttentionBlock, x: mx.array) -> mx.array:
    """Return x after the block's two dense layers."""
    return x + block.mlp2(_gelu(block.mlp1(block.mlp_ln(x))))


def _gelu(x: mx.array) -> mx.array:
    """
    Return the exact GELU.

    MLX's own is compiled, and what compiling leaves in a thread can bring the process down when
    both end at once (mlx 0.32, ml-explore/mlx#4110).
    """
    return x * (1 + mx.erf(x / math.sqrt(2))) / 2


def _keys_and_values(attention: MultiHeadAttention, x: mx.array) -> _Pair:
    return (
        _divided(attention.key(x), attention.n_head),
        _divided(attention.value(x), attention.n_head),
    )


def _divided(x: mx.array, heads: int) -> mx.array:
    """Return [rows, heads, positions, size] of [rows, positions, heads * size]."""
    rows, positions, _ = x.shape
    return x.reshape(rows, positions, heads, -1).swapaxes(1, 2)


def _united(x: mx.array) -> mx.array:
    """Return [rows, positions, heads * size] of [rows, heads, positions, size]."""
    rows, _, positions, _ = x.shape
    return x.swapaxes(1, 2).reshape(rows, positions, -1)


def _scale(queries: mx.array) -> float:
    size: Any = queries.shape[-1]
    return float(size**-0.5)
