"""Attention that also tells where some heads look, for the one call that asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NAME", "Looking", "register"]

NAME = "wlk_qwen3_simul"


@attrs.define(eq=False)
class Looking:
    """
    What one call asks of the attention, and what it is given: an argument of that call alone.

    Attributes:
        heads: int64[k] of each layer that has alignment heads.
        rows: how many positions at the end are told of.
        span: the first audio position, and behind the last.
        weights: what came, float32[k, rows, audio] a layer: softmax over the audio alone.
        heeds: float32[k, rows] a layer: the share of the attention that went to the audio.

    """

    heads: Mapping[int, torch.Tensor]
    rows: int
    span: tuple[int, int]
    weights: list[torch.Tensor] = attrs.Factory(list)
    heeds: list[torch.Tensor] = attrs.Factory(list)

    def look(self, layer: int, query: torch.Tensor, key: torch.Tensor, *, scaling: float) -> None:
        """Note where the heads of *layer* look, from [1, heads, positions, size] of both."""
        heads = self.heads.get(layer)
        if heads is None:
            return
        group = query.shape[1] // key.shape[1]
        asked = query[0, heads, -self.rows :].float()
        told = key[0, torch.div(heads, group, rounding_mode="floor")].float()
        scores = asked @ told.transpose(1, 2) * scaling
        positions = torch.arange(key.shape[2], device=key.device)
        unseen = positions[None, :] > positions[-self.rows :, None]
        scores = scores.masked_fill(unseen, -torch.inf)
        audio = scores[..., self.span[0] : self.span[1]]
        self.weights.append(audio.softmax(dim=-1))
        self.heeds.append((audio.logsumexp(dim=-1) - scores.logsumexp(dim=-1)).exp())


def attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    looking: Looking | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attend as transformers' own fast attention does, and note what *looking* asks for."""
    if looking is not None:
        looking.look(module.layer_idx, query, key, scaling=options["scaling"])
    mixed, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    return mixed, None


def register() -> None:
    """
    Make the attention known to transformers, under NAME.

    With the attention goes the function that makes its masks: without one transformers makes none,
    and several positions behind kept ones would see those that come after them.
    """
    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
