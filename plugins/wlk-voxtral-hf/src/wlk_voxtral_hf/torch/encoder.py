"""Run the causal audio encoder, and any self-attention layer, over several streams at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import torch
from torch.nn import functional
from transformers.models.voxtral_realtime import modeling_voxtral_realtime

from wlk_frameworks.kv_pool import AttentionPass

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from wlk_frameworks.kv_pool import KVCache, KVPool

CONVOLUTIONS = ("conv1", "conv2")


@attrs.frozen(kw_only=True, eq=False)
class EncoderCache:
    """Keys and values of the encoder, and the last input frames of its convolutions."""

    kv_cache: KVCache
    padding: tuple[tuple[str, Tensor], ...]  #: name of the convolution, and [channels, frames]

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return self.kv_cache.nbytes + sum(tensor.nbytes for _, tensor in self.padding)


def encode(
    encoder: Any,
    pool: KVPool,
    mels: Sequence[NDArray[np.float32]],
    caches: Sequence[EncoderCache | None],
) -> tuple[Tensor, list[EncoderCache]]:
    """
    Return the encoder frames for *mels*, float32[frames, mels] of each row, and the new caches.

    The encoder frames are packed, [encoder frames, width], row after row.
    """
    dtype, device = encoder.norm.weight.dtype, pool.device
    lengths = [len(mel) for mel in mels]
    states = torch.zeros(len(mels), mels[0].shape[1], max(lengths), dtype=torch.float32)
    for row, mel in enumerate(mels):
        states[row, :, : len(mel)] = torch.from_numpy(mel.T)
    states = states.to(device, dtype)
    padding: list[Sequence[Tensor]] = []
    for index, name in enumerate(CONVOLUTIONS):
        convolution = getattr(encoder.embedder, name)
        before = [
            states.new_zeros(states.shape[1], convolution.left_pad)
            if cache is None
            else cache.padding[index][1]
            for cache in caches
        ]
        whole = torch.cat((torch.stack(before), states), dim=2)
        padding.append(_last_frames(whole, lengths, convolution.left_pad))
        states = functional.gelu(
            functional.conv1d(
                whole, convolution.weight, convolution.bias, stride=convolution.stride
            )
        )
        lengths = [length // convolution.stride[0] for length in lengths]
    attention = AttentionPass.of(
        pool, [pool.new_cache() if cache is None else cache.kv_cache for cache in caches], lengths
    )
    rows = states.transpose(1, 2)
    packed = torch.cat([rows[row, :length] for row, length in enumerate(lengths)])
    rotation = encoder.rotary_emb(packed, position_ids=attention.position_ids)
    for index, layer in enumerate(encoder.layers):
        normal = layer.self_attn_layer_norm(packed)
        packed = packed + attend(attention, layer.self_attn, index, normal, rotation)
        packed = packed + layer.mlp(layer.final_layer_norm(packed))
    return encoder.norm(packed), [
        EncoderCache(kv_cache=kv_cache, padding=tuple(zip(CONVOLUTIONS, row_padding, strict=True)))
        for kv_cache, *row_padding in zip(attention.caches, *padding, strict=True)
    ]


def _last_frames(whole: Tensor, lengths: Sequence[int], left_pad: int) -> Sequence[Tensor]:
    """Return the last frames of each row, which a causal convolution needs before the next."""
    if min(lengths) == max(lengths):
        return whole[:, :, lengths[0] : lengths[0] + left_pad].clone().unbind()
    return [whole[row, :, length : length + left_pad].clone() for row, length in enumerate(lengths)]


def attend(
    attention_pass: AttentionPass,
    attention: Any,
    layer: int,
    states: Tensor,
    rotation: tuple[Tensor, Tensor],
) -> Tensor:
    """Return the self-attention of *layer* for packed states, and write its keys and values."""
    modeling: Any = modeling_voxtral_realtime
    size = attention.head_dim
    # [1, heads, positions, size], as the rotation expects
    queries = attention.q_proj(states).view(1, len(states), -1, size).transpose(1, 2)
    keys = attention.k_proj(states).view(1, len(states), -1, size).transpose(1, 2)
    values = attention.v_proj(states).view(len(states), -1, size)
    queries, keys = modeling.apply_rotary_pos_emb(queries, keys, *rotation)
    mixed = attention_pass.mix(
        layer,
        queries[0].transpose(0, 1),
        keys[0].transpose(0, 1),
        values,
        scale=attention.scaling,
    )
    output: Tensor = attention.o_proj(mixed)
    return output
