"""
Run the cache-aware FastConformer of transformers over the next chunks of several streams.

Its own forward pass allows only one cache length for all rows.  So its modules are called one by
one, except attention, which runs here on keys and values in a pool (Noroozi et al., "Stateful
Conformer with Cache-based Inference for Streaming Automatic Speech Recognition", arXiv:2312.17279).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import torch
from torch.nn import functional

from wlk_frameworks.kv_pool import KVPool
from wlk_nemotron.engine.recognizer import MAX_CALL_FRAMES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from wlk_frameworks.kv_pool import KVCache

Layout = tuple[tuple[str, tuple[int, ...]], ...]  #: names and shapes of the tensors of a row


@attrs.frozen(kw_only=True, eq=False)
class PackedTensors:
    """Named tensors of several rows, packed as [rows, elements] so that a row is one tensor."""

    layout: Layout
    values: Tensor

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> PackedTensors:
        """Pack *tensors*, each [rows, ...]."""
        layout = tuple((name, tuple(tensor.shape[1:])) for name, tensor in tensors.items())
        return cls(
            layout=layout, values=torch.cat([tensor.flatten(1) for tensor in tensors.values()], 1)
        )

    def unpacked(self) -> dict[str, Tensor]:
        """Return the tensors as views."""
        parts = torch.split(self.values, [math.prod(shape) for _, shape in self.layout], 1)
        return {
            name: part.reshape(-1, *shape)
            for (name, shape), part in zip(self.layout, parts, strict=True)
        }


class Paddings:
    """
    The last input frames of each causal convolution, before and after a pass.

    It replaces the padding cache of transformers, which is changed in place and not kept per row.

    Args:
        before: [rows, channels, frames, ...] by the key of the convolution; empty at the start of
            an utterance.

    """

    def __init__(self, before: Mapping[str, Tensor]) -> None:
        self._before = before
        self.after: dict[str, Tensor] = {}

    def update(self, states: Tensor, key: str, convolution: Any) -> Tensor:
        """Return *states*, [rows, channels, frames, ...], with the frames before them."""
        before = self._before.get(key)
        if before is None:  # strided convolutions start with more zeros than the frames they keep
            shape = list(states.shape)
            shape[2] = getattr(convolution, "left_pad_init", convolution.left_pad)
            before = states.new_zeros(shape)
        whole = torch.cat((before, states), 2)
        self.after[key] = whole[:, :, whole.shape[2] - convolution.left_pad :]
        return whole


class Encoder:
    """
    The encoder of a model, and the pool with keys and values of all streams.

    Only one thread at a time may call it.

    Args:
        encoder: a NemotronAsrStreamingEncoder.

    """

    def __init__(self, encoder: Any) -> None:
        config = encoder.config
        self._encoder = encoder
        self._left = config.sliding_window - 1
        self.pool = KVPool(
            layers=config.num_hidden_layers,
            heads=config.num_attention_heads,
            size=config.hidden_size // config.num_attention_heads,
            window=config.sliding_window,
            device=encoder.device,
            dtype=encoder.dtype,
        )
        with torch.inference_mode():
            self._relative_keys = self._all_relative_keys()

    def _all_relative_keys(self) -> list[Tensor]:
        """
        Return the keys of relative positions for each layer, [heads, size, positions].

        The positions go from the farthest back to the farthest ahead.  Computing the keys in each
        call would cost more than everything else in a short chunk.
        """
        encoder, pool = self._encoder, self.pool
        shape = (1, MAX_CALL_FRAMES, encoder.config.hidden_size)
        states = torch.empty(shape, device=pool.device, dtype=encoder.dtype)
        positions = encoder.encode_positions(states, cached_frames=self._left)[0]
        positions = positions[: self._left + 2 * MAX_CALL_FRAMES - 1]
        heads = encoder.config.num_attention_heads
        return [
            layer.self_attn.relative_k_proj(positions)
            .unflatten(1, (heads, -1))
            .permute(1, 2, 0)
            .contiguous()
            for layer in encoder.layers
        ]

    def __call__(
        self,
        mel: Tensor,
        caches: Sequence[KVCache],
        paddings: Paddings,
        *,
        chunk_frames: int,
    ) -> tuple[Tensor, list[KVCache]]:
        """
        Return the encoder frames of the next chunks of each row, and the new caches.

        Args:
            mel: [rows, mel frames, mels].
            caches: the KV cache of each row.
            paddings: those of all rows.
            chunk_frames: encoder frames per chunk.

        """
        encoder = self._encoder
        states = encoder.subsampling(mel, None, padding_cache=paddings) * encoder.input_scale
        attention = _ChunkAttention.of(
            self.pool,
            [cache.extended(states.shape[1]) for cache in caches],
            frames=states.shape[1],
            chunk_frames=chunk_frames,
            left=self._left // chunk_frames * chunk_frames,
        )
        layers = zip(encoder.layers, self._relative_keys, strict=True)
        for index, (layer, keys) in enumerate(layers):
            states = states + 0.5 * layer.feed_forward1(layer.norm_feed_forward1(states))
            normal = layer.norm_self_att(states)
            states = states + attention.attend(index, layer.self_attn, normal, keys)
            states = states + layer.conv(layer.norm_conv(states), padding_cache=paddings)
            states = states + 0.5 * layer.feed_forward2(layer.norm_feed_forward2(states))
            states = layer.norm_out(states)
        return states, [cache.extended(0) for cache in attention.caches]  # trimmed to the window


@attrs.frozen(kw_only=True, eq=False)
class _ChunkAttention:
    """
    The self-attention of several rows in one pass, from layer to layer.

    A frame attends to all of its chunk, and to whole chunks before it.  Rows are aligned at their
    newest frame, so that relative positions are the same in all of them.
    """

    pool: KVPool
    caches: list[KVCache]  #: the KV cache of each row, with its new frames
    fresh: Tensor  #: int64[rows * frames], the places where keys and values are written
    numbers: Tensor  #: int64[rows, keys], the places of each row
    hidden: Tensor  #: bool[rows, 1, frames, keys], true where a frame does not attend to a key

    @classmethod
    def of(
        cls, pool: KVPool, caches: list[KVCache], *, frames: int, chunk_frames: int, left: int
    ) -> _ChunkAttention:
        """Return the attention for *caches* that are already extended by *frames* new frames."""
        held = np.array([min(len(cache.places), left + frames) for cache in caches])
        width = int(held.max())
        numbers = np.zeros((len(caches), width), np.int64)
        for row, cache in enumerate(caches):
            numbers[row, width - held[row] :] = cache.numbers[len(cache.numbers) - held[row] :]
        keys = np.arange(width) - (width - frames)  # 0 is the first new frame
        queries = np.arange(frames)[:, None] // chunk_frames
        chunks = keys // chunk_frames
        is_near = (chunks <= queries) & (chunks >= queries - left // chunk_frames)
        is_held = keys >= frames - held[:, None]
        hidden = ~(is_near[None, None] & is_held[:, None, None])
        fresh = np.concatenate([cache.numbers[-frames:] for cache in caches])
        return cls(
            pool=pool,
            caches=caches,
            fresh=torch.from_numpy(fresh).to(pool.device),
            numbers=torch.from_numpy(numbers).to(pool.device),
            hidden=torch.from_numpy(hidden).to(pool.device),
        )

    def attend(self, index: int, attention: Any, states: Tensor, relative_keys: Tensor) -> Tensor:
        """Return the self-attention of layer *index*, [rows, frames, width], and fill the pool."""
        frames, width = states.shape[1], self.numbers.shape[1]
        queries, keys, values = (
            project(states).unflatten(2, (-1, attention.head_dim))
            for project in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        self.pool.write(index, self.fresh, keys.flatten(0, 1), values.flatten(0, 1))
        memory = self.pool.gathered(index, self.numbers)
        first = relative_keys.shape[2] - (MAX_CALL_FRAMES + width - 1)
        near = relative_keys[:, :, first : first + width + frames - 1]
        places = _shifted((queries + attention.bias_v).transpose(1, 2) @ near)
        mixed = functional.scaled_dot_product_attention(
            (queries + attention.bias_u).transpose(1, 2),
            memory[:, :, 0].transpose(1, 2),
            memory[:, :, 1].transpose(1, 2),
            attn_mask=(places * attention.scaling).masked_fill_(self.hidden, -torch.inf),
            scale=attention.scaling,
        )
        output: Tensor = attention.o_proj(mixed.transpose(1, 2).flatten(2))
        return output


def _shifted(scores: Tensor) -> Tensor:
    """
    Convert scores by relative position, [..., frames, keys + frames - 1], to [..., frames, keys].

    Key *j* is at position ``frames - 1 - i + j`` of row *i* (Dai et al., "Transformer-XL", 2019,
    appendix B).
    """
    frames, positions = scores.shape[-2:]
    moved = functional.pad(scores, (1, 0)).flatten(-2)[..., frames:]
    return moved.reshape(*scores.shape)[..., : positions - frames + 1]
