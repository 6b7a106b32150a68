"""The Network on MLX: the modules of mlx-qwen3-asr, called layer by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx_qwen3_asr.mrope import apply_rotary_pos_emb
import numpy as np

from wlk_frameworks.mlx import gelu, silu
from wlk_qwen3_simul.engine.frames import token_count
from wlk_qwen3_simul.engine.mel import padded_second
from wlk_qwen3_simul.engine.network import DecoderOutput, EncodedWindow, heads_by_layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wlk_frameworks.mlx import SharedStream

BLOCK = 512  # addends per partial sum
_Pair = tuple[Any, Any]  # keys and values, [1, heads, positions, size]


class MlxKVCache:
    """The keys and values of one stream, in arrays that are never changed in place; see KVCache."""

    def __init__(self) -> None:
        self.length = 0  #: positions held
        #: keys and values of each layer, [1, heads, positions, size]
        self.layers: list[tuple[Any, Any]] = []

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays; positions dropped since the latest forward still count."""
        return sum(int(keys.nbytes + values.nbytes) for keys, values in self.layers)

    def truncate(self, length: int) -> None:
        """Drop all but the first *length* positions."""
        self.length = min(self.length, length)


class MlxNetwork:
    """
    A Qwen3-ASR on MLX, shared by all streams; see Network.

    The modules are never changed.  Their layers are called one by one from here, because the
    model's own forward returns no attention.
    """

    def __init__(
        self,
        model: Any,
        *,
        alignment_heads: Sequence[tuple[int, int]],
        stream: SharedStream,
        dtype: Any,
    ) -> None:
        self._model = model
        self._stream = stream
        self._dtype = dtype
        config = model.config
        self.mel_bands = int(config.audio_config.num_mel_bins)
        self.window_frames = int(config.audio_config.n_window_infer)
        self.vocabulary_size = int(config.text_config.vocab_size)
        self._heads = heads_by_layer(alignment_heads)

    def convolve(self, features: NDArray[np.float32]) -> Any:
        """Convolve the frames of at most one second; see Network."""
        encoder = self._model.audio_tower
        with self._stream.acquire():
            states = mx.array(padded_second(features))[None, :, :, None].astype(self._dtype)
            for convolution in (encoder.conv2d1, encoder.conv2d2, encoder.conv2d3):
                states = gelu(convolution(states))
            steps = states.shape[2]
            states = encoder.conv_out(states.transpose(0, 2, 3, 1).reshape(steps, -1))
            states = states + encoder.embed_positions(steps).astype(states.dtype)
            # Lazy: a trip to the device takes longer than this work, so `encode` evaluates it.
            return states[: token_count(features.shape[1])]

    def encode(self, seconds: Sequence[Any]) -> EncodedWindow:
        """Encode the seconds of at most one window, without waiting for the result."""
        encoder = self._model.audio_tower
        with self._stream.acquire():
            states = mx.concatenate(list(seconds))[None]
            for layer in encoder.layers:
                states = _encoder_layer(layer, states)
            states = gelu(encoder.proj1(encoder.ln_post(states[0])))
            embeddings = encoder.proj2(states)
            mx.async_eval(embeddings, *seconds)
        return EncodedWindow(embeddings)

    def new_kv_cache(self) -> MlxKVCache:
        """Return an empty KV cache."""
        return MlxKVCache()

    def forward(
        self,
        kv_cache: MlxKVCache,
        parts: Sequence[EncodedWindow | Sequence[int]],
        *,
        rows: int,
        audio: tuple[int, int],
        among: Sequence[int] = (),
    ) -> DecoderOutput:
        """Run the decoder over *parts*, with one transfer to the host; see Network."""
        decoder = self._model.model
        with self._stream.acquire():
            states = mx.concatenate([self._embed(part) for part in parts])[None]
            cached, new = kv_cache.length, states.shape[1]
            positions = mx.arange(cached, cached + new)
            rotation = decoder.rotary_emb(
                mx.broadcast_to(positions, (1, 3, new)), dtype=states.dtype
            )
            is_visible = mx.arange(cached + new)[None] <= positions[:, None]
            layers: list[_Pair] = []
            weights: list[Any] = []
            masses: list[Any] = []
            for number, layer in enumerate(decoder.layers):
                past = kv_cache.layers[number] if cached else None
                queries, keys, values = self._project(layer, states, rotation, past, cached)
                layers.append((keys, values))
                mixed = mx.fast.scaled_dot_product_attention(
                    queries,
                    keys,
                    values,
                    scale=queries.shape[-1] ** -0.5,
                    mask=is_visible if new > 1 else None,
                )
                states = states + layer.self_attn.o_proj(
                    mixed.transpose(0, 2, 1, 3).reshape(1, new, -1)
                )
                normal, mlp = layer.post_attention_layernorm(states), layer.mlp
                states = states + mlp.down_proj(silu(mlp.gate_proj(normal)) * mlp.up_proj(normal))
                if number in self._heads:
                    audio_weights, mass = _capture_attention(
                        queries, keys, self._heads[number], is_visible[-rows:], audio
                    )
                    weights.append(audio_weights)
                    masses.append(mass)
            logits = self._model.lm_head(decoder.norm(states[0, -rows:])).astype(mx.float32)
            choices = logits[:, mx.array(among)] if among else logits
            best = choices.argmax(axis=-1)
            ids = mx.array(among)[best] if among else best
            columns = [
                ids.astype(mx.float32)[:, None],
                (choices.max(axis=-1) - _logsumexp(logits))[:, None],
                mx.concatenate(masses).mean(axis=0)[:, None],
                mx.concatenate(weights).mean(axis=0),
            ]
            packed = mx.concatenate(columns, axis=1)
            mx.eval(packed, *(array for pair in layers for array in pair))
            arrived = np.array(packed)
        kv_cache.layers, kv_cache.length = layers, cached + new
        return DecoderOutput.from_packed(arrived)

    def _embed(self, part: EncodedWindow | Sequence[int]) -> Any:
        if isinstance(part, EncodedWindow):
            return part.embeddings.astype(self._dtype)
        return self._model.model.embed_tokens(mx.array(list(part))).astype(self._dtype)

    def _project(
        self, layer: Any, states: Any, rotation: _Pair, past: _Pair | None, cached: int
    ) -> tuple[Any, Any, Any]:
        """Return the new queries, and all keys and values, each [1, heads, positions, size]."""
        attention = layer.self_attn
        normal = layer.input_layernorm(states)
        new, size = states.shape[1], attention.head_dim
        # mlx-qwen3-asr creates these two norms with MLX's default epsilon, not with the model's.
        epsilon = self._model.config.text_config.rms_norm_eps

        def split_heads(projected: Any, heads: int) -> Any:
            return projected.reshape(1, new, heads, size)

        queries = split_heads(attention.q_proj(normal), attention.num_heads)
        keys = split_heads(attention.k_proj(normal), attention.num_kv_heads)
        values = split_heads(attention.v_proj(normal), attention.num_kv_heads)
        values = values.transpose(0, 2, 1, 3)
        queries = mx.fast.rms_norm(queries, attention.q_norm.weight, epsilon)
        keys = mx.fast.rms_norm(keys, attention.k_norm.weight, epsilon)
        queries, keys = apply_rotary_pos_emb(
            queries.transpose(0, 2, 1, 3), keys.transpose(0, 2, 1, 3), *rotation
        )
        if past is not None:
            keys = mx.concatenate([past[0][:, :, :cached], keys], axis=2)
            values = mx.concatenate([past[1][:, :, :cached], values], axis=2)
        return queries, keys, values


def _encoder_layer(layer: Any, states: Any) -> Any:
    """Return [1, positions, width] after a layer, clipped in float16 as mlx-qwen3-asr does."""
    states = states + layer.self_attn(layer.self_attn_layer_norm(states), mask=None)
    states = states + layer.fc2(gelu(layer.fc1(layer.final_layer_norm(states))))
    limit = float(np.finfo(np.float16).max) - 1000
    return mx.clip(states, -limit, limit) if states.dtype == mx.float16 else states


def _capture_attention(
    queries: Any, keys: Any, heads: Sequence[int], is_visible: Any, audio: tuple[int, int]
) -> tuple[Any, Any]:
    """Return a softmax over the audio, [heads, rows, audio], and its mass, [heads, rows]."""
    group = queries.shape[1] // keys.shape[1]
    rows = is_visible.shape[0]
    own_queries = queries[0][mx.array(list(heads))][:, -rows:].astype(mx.float32)
    own_keys = keys[0][mx.array([head // group for head in heads])].astype(mx.float32)
    scores = own_queries @ own_keys.transpose(0, 2, 1) * queries.shape[-1] ** -0.5
    scores = mx.where(is_visible[None], scores, -mx.inf)
    on_audio = scores[..., audio[0] : audio[1]]
    mass = mx.exp(mx.logsumexp(on_audio, axis=-1) - mx.logsumexp(scores, axis=-1))
    return mx.softmax(on_audio, axis=-1), mass


def _logsumexp(logits: Any) -> Any:
    """
    Return the logarithm of the sum of exponentials of each row, summed block by block.

    MLX adds one addend after another: with a hundred thousand small float32 addends the sum is
    wrong in the third digit.
    """
    padding = [(0, 0), (0, -logits.shape[1] % BLOCK)]
    blocks = mx.pad(logits, padding, constant_values=-mx.inf).reshape(len(logits), -1, BLOCK)
    return mx.logsumexp(mx.logsumexp(blocks, axis=-1), axis=-1)
