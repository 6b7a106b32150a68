"""The self-attention of transformers' modules in a pass of several streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers.models.voxtral_realtime import modeling_voxtral_realtime

if TYPE_CHECKING:
    from torch import Tensor

    from wlk_core.frameworks.packed_attention import AttentionPass

__all__ = ["attend"]


def attend(
    attention_pass: AttentionPass,
    attention: Any,
    layer: int,
    states: Tensor,
    rotation: tuple[Tensor, Tensor],
) -> Tensor:
    """Return the self-attention of *layer* for packed states; writes keys and values."""
    modeling: Any = modeling_voxtral_realtime
    size = attention.head_dim
    # [1, heads, positions, size], as the rotation takes them
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
