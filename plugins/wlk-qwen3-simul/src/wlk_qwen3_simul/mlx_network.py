"""Qwen3-ASR on MLX: the modules of mlx-qwen3-asr behind the seam, called layer by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from mlx import nn
import mlx.core as mx
from mlx_qwen3_asr.mrope import apply_rotary_pos_emb
import numpy as np

from wlk_qwen3_simul.audio.frames import CHUNK_FRAMES, token_count
from wlk_qwen3_simul.simul.network import Looked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wlk_qwen3_simul.mlx_device import Commands
    from wlk_qwen3_simul.simul.network import Part

__all__ = ["MlxEncoded", "MlxMemory", "MlxNetwork"]

BLOCK = 512  # addends of a partial sum
_Pair = tuple[Any, Any]  # keys and values, [1, heads, positions, size]


@attrs.frozen(eq=False)
class MlxEncoded:
    """Embeddings of the audio tokens of one window, [tokens, width]."""

    embeddings: Any

    @property
    def tokens(self) -> int:
        """Audio tokens of the window."""
        return int(self.embeddings.shape[0])

    @property
    def nbytes(self) -> int:
        """Bytes of the embeddings."""
        return int(self.embeddings.nbytes)


class MlxMemory:
    """The keys and values of one stream; arrays are replaced, never written to. See Memory."""

    def __init__(self) -> None:
        self.length = 0  #: positions held
        self.layers: list[_Pair] = []

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, which are as long as the last pass left them."""
        return sum(int(keys.nbytes + values.nbytes) for keys, values in self.layers)

    def keep(self, length: int) -> None:
        """Forget all but the first *length* positions."""
        self.length = min(self.length, length)


class MlxNetwork:
    """
    A Qwen3-ASR on MLX, shared by all streams; see Network.

    The modules are only read.  Their layers are called one by one from here, because the model's
    own forward gives no attention, and nothing has to be put in its place for that.
    """

    def __init__(
        self,
        model: Any,
        *,
        alignment_heads: Sequence[tuple[int, int]],
        commands: Commands,
        dtype: Any,
    ) -> None:
        self._model = model
        self._commands = commands
        self._dtype = dtype
        self._heads: dict[int, list[int]] = {}
        for layer, head in alignment_heads:
            self._heads.setdefault(layer, []).append(head)

    @property
    def mels(self) -> int:
        """Mel bands of a frame."""
        return int(self._model.config.audio_config.num_mel_bins)

    @property
    def window_frames(self) -> int:
        """Mel frames of a window."""
        return int(self._model.config.audio_config.n_window_infer)

    @property
    def vocabulary(self) -> int:
        """Rows of the embedding."""
        return int(self._model.config.text_config.vocab_size)

    def convolve(self, features: NDArray[np.float32]) -> Any:
        """
        Convolve float32[mels, frames], at most one second.

        Raises:
            ValueError: there are no frames, or more than a second has.

        """
        frames = features.shape[1]
        if not 0 < frames <= CHUNK_FRAMES:
            raise ValueError(f"expected 1 to {CHUNK_FRAMES} frames, got {frames}")
        tower = self._model.audio_tower
        # The convolutions see zeros behind the last second, as they do in any longer audio.
        padded = np.zeros((self.mels, CHUNK_FRAMES), dtype=np.float32)
        padded[:, :frames] = features
        with self._commands.turn():
            states = mx.array(padded)[None, :, :, None].astype(self._dtype)
            for convolution in (tower.conv2d1, tower.conv2d2, tower.conv2d3):
                states = nn.gelu(convolution(states))
            steps = states.shape[2]
            states = tower.conv_out(states.transpose(0, 2, 3, 1).reshape(steps, -1))
            states = states + tower.embed_positions(steps).astype(states.dtype)
            # Sent off by `encode`: going to the device takes longer than this.
            return states[: token_count(frames)]

    def encode(self, stems: Sequence[Any]) -> MlxEncoded:
        """Encode the seconds of at most one window; nobody waits for it before the decoder does."""
        tower = self._model.audio_tower
        with self._commands.turn():
            states = mx.concatenate(list(stems))[None]
            for layer in tower.layers:
                states = layer(states, mask=None)
            states = nn.gelu(tower.proj1(tower.ln_post(states[0])))
            embeddings = tower.proj2(states)
            mx.async_eval(embeddings, *stems)
        return MlxEncoded(embeddings)

    def open(self) -> MlxMemory:
        """Return a memory without positions."""
        return MlxMemory()

    def extend(
        self, memory: MlxMemory, parts: Sequence[Part], *, rows: int, audio: tuple[int, int]
    ) -> Looked:
        """Run *parts* behind what *memory* holds; one transfer to the host. See Network."""
        decoder = self._model.model
        with self._commands.turn():
            states = mx.concatenate([self._embedded(part) for part in parts])[None]
            held, new = memory.length, states.shape[1]
            places = mx.arange(held, held + new)
            rotation = decoder.rotary_emb(mx.broadcast_to(places, (1, 3, new)), dtype=states.dtype)
            seen = mx.arange(held + new)[None] <= places[:, None]
            layers: list[_Pair] = []
            weights: list[Any] = []
            heeds: list[Any] = []
            for number, layer in enumerate(decoder.layers):
                past = memory.layers[number] if held else None
                queries, keys, values = self._attended(layer, states, rotation, past, held)
                layers.append((keys, values))
                mixed = mx.fast.scaled_dot_product_attention(
                    queries,
                    keys,
                    values,
                    scale=queries.shape[-1] ** -0.5,
                    mask=seen if new > 1 else None,
                )
                states = states + layer.self_attn.o_proj(
                    mixed.transpose(0, 2, 1, 3).reshape(1, new, -1)
                )
                states = states + layer.mlp(layer.post_attention_layernorm(states))
                if number in self._heads:
                    looked = _look(queries, keys, self._heads[number], seen[-rows:], audio)
                    weights.append(looked[0])
                    heeds.append(looked[1])
            logits = self._model.lm_head(decoder.norm(states[0, -rows:])).astype(mx.float32)
            told = [
                # Whole numbers below 2**24 are exact in float32.
                logits.argmax(axis=-1).astype(mx.float32)[:, None],
                (logits.max(axis=-1) - _log_total(logits))[:, None],
                mx.concatenate(heeds).mean(axis=0)[:, None],
                mx.concatenate(weights).mean(axis=0),
            ]
            together = mx.concatenate(told, axis=1)
            mx.eval(together, *(one for pair in layers for one in pair))
            arrived = np.array(together)
        memory.layers, memory.length = layers, held + new
        return Looked(
            ids=arrived[:, 0].astype(np.int64),
            log_probs=arrived[:, 1],
            heed=arrived[:, 2],
            attention=arrived[:, 3:],
        )

    def _embedded(self, part: Part) -> Any:
        if isinstance(part, MlxEncoded):
            return part.embeddings.astype(self._dtype)
        return self._model.model.embed_tokens(mx.array(list(part))).astype(self._dtype)

    def _attended(
        self, layer: Any, states: Any, rotation: _Pair, past: _Pair | None, held: int
    ) -> tuple[Any, Any, Any]:
        """Return the new queries, and all keys and values, each [1, heads, positions, size]."""
        attention = layer.self_attn
        normal = layer.input_layernorm(states)
        new, size = states.shape[1], attention.head_dim
        # The norms of the model are of another epsilon than those of the modules.
        epsilon = self._model.config.text_config.rms_norm_eps

        def split(projected: Any, heads: int) -> Any:
            return projected.reshape(1, new, heads, size)

        queries = split(attention.q_proj(normal), attention.num_heads)
        keys = split(attention.k_proj(normal), attention.num_kv_heads)
        values = split(attention.v_proj(normal), attention.num_kv_heads).transpose(0, 2, 1, 3)
        queries = mx.fast.rms_norm(queries, attention.q_norm.weight, epsilon)
        keys = mx.fast.rms_norm(keys, attention.k_norm.weight, epsilon)
        queries, keys = apply_rotary_pos_emb(
            queries.transpose(0, 2, 1, 3), keys.transpose(0, 2, 1, 3), *rotation
        )
        if past is not None:
            keys = mx.concatenate([past[0][:, :, :held], keys], axis=2)
            values = mx.concatenate([past[1][:, :, :held], values], axis=2)
        return queries, keys, values


def _look(
    queries: Any, keys: Any, heads: Sequence[int], seen: Any, audio: tuple[int, int]
) -> tuple[Any, Any]:
    """Return softmax over the audio, [heads, rows, audio], and its share, [heads, rows]."""
    group = queries.shape[1] // keys.shape[1]
    rows = seen.shape[0]
    asked = queries[0][mx.array(list(heads))][:, -rows:].astype(mx.float32)
    told = keys[0][mx.array([head // group for head in heads])].astype(mx.float32)
    scores = asked @ told.transpose(0, 2, 1) * queries.shape[-1] ** -0.5
    scores = mx.where(seen[None], scores, -mx.inf)
    there = scores[..., audio[0] : audio[1]]
    share = mx.exp(mx.logsumexp(there, axis=-1) - mx.logsumexp(scores, axis=-1))
    return mx.softmax(there, axis=-1), share


def _log_total(logits: Any) -> Any:
    """
    Return the logarithm of the sum of exponentials of each row.

    Block by block: MLX adds one after another, and a hundred thousand small addends in float32 are
    off in the third digit by then.
    """
    padding = [(0, 0), (0, -logits.shape[1] % BLOCK)]
    blocks = mx.pad(logits, padding, constant_values=-mx.inf).reshape(len(logits), -1, BLOCK)
    return mx.logsumexp(mx.logsumexp(blocks, axis=-1), axis=-1)
