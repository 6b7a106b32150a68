"""Parts of the layers of transformers' Whisper that the encoder and the decoder share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "KeysValues",
    "attention_weights",
    "merge_heads",
    "mlp",
    "split_heads",
    "to_host",
]

KeysValues = tuple[torch.Tensor, torch.Tensor]
"""Keys and values, each [rows, heads, positions, head size]."""


def mlp(layer: Any, states: torch.Tensor) -> torch.Tensor:
    """Return *states* after the feed-forward part of a layer."""
    normal = layer.final_layer_norm(states)
    output: torch.Tensor = states + layer.fc2(layer.activation_fn(layer.fc1(normal)))
    return output


def attention_weights(
    queries: torch.Tensor,
    keys: torch.Tensor,
    heads: Sequence[int],
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """
    Return the softmax weights float32[rows, heads, new, frames] of some heads.

    The fused kernel that mixes the values returns none.  Computing these heads a second time costs
    little, and the logits are the same with and without it.  *mask* is true where a frame exists.
    """
    head_queries, head_keys = queries[:, list(heads)].float(), keys[:, list(heads)].float()
    scores = head_queries @ head_keys.transpose(2, 3) * queries.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights: torch.Tensor = scores.softmax(dim=-1)
    return weights


def split_heads(attention: Any, states: torch.Tensor) -> torch.Tensor:
    """Return [rows, positions, width] as [rows, heads, positions, head size]."""
    rows, positions, _ = states.shape
    return states.view(rows, positions, attention.num_heads, -1).transpose(1, 2)


def merge_heads(states: torch.Tensor) -> torch.Tensor:
    """Return [rows, heads, positions, head size] as [rows, positions, width]."""
    return states.transpose(1, 2).flatten(2)


def to_host(*tensors: torch.Tensor) -> list[NDArray[np.float32]]:
    """Return float32 tensors as arrays, in one transfer."""
    packed = torch.cat([tensor.reshape(-1) for tensor in tensors]).cpu().numpy()
    arrays, first = [], 0
    for tensor in tensors:
        arrays.append(packed[first : first + tensor.numel()].reshape(tensor.shape))
        first += tensor.numel()
    return arrays
