"""An attention function for transformers that also captures the weights of some heads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ATTENTION_NAME", "AttentionCapture", "register"]

ATTENTION_NAME = "wlk_qwen3_simul"


@attrs.define(eq=False)
class AttentionCapture:
    """
    The heads and positions to capture in one forward, and the captured attention.

    A capture is an argument of one forward, so that nothing of a stream is stored on the model.

    Attributes:
        heads: int64[k] for each layer that has alignment heads.
        rows: number of positions at the end to capture.
        audio: the positions of the audio tokens, as (start, stop).
        weights: captured float32[k, rows, audio] of each layer: a softmax over the audio alone.
        masses: captured float32[k, rows] of each layer: the share of attention to the audio.

    """

    heads: Mapping[int, torch.Tensor]
    rows: int
    audio: tuple[int, int]
    weights: list[torch.Tensor] = attrs.Factory(list)
    masses: list[torch.Tensor] = attrs.Factory(list)

    def capture(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, *, scaling: float
    ) -> None:
        """Capture the heads of *layer* from its [1, heads, positions, size] queries and keys."""
        heads = self.heads.get(layer)
        if heads is None:
            return
        group = query.shape[1] // key.shape[1]
        queries = query[0, heads, -self.rows :].float()
        keys = key[0, torch.div(heads, group, rounding_mode="floor")].float()
        scores = queries @ keys.transpose(1, 2) * scaling
        positions = torch.arange(key.shape[2], device=key.device)
        is_later = positions[None, :] > positions[-self.rows :, None]
        scores = scores.masked_fill(is_later, -torch.inf)
        audio = scores[..., self.audio[0] : self.audio[1]]
        self.weights.append(audio.softmax(dim=-1))
        self.masses.append((audio.logsumexp(dim=-1) - scores.logsumexp(dim=-1)).exp())


def attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    attention_capture: AttentionCapture | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attend with transformers' own SDPA attention, and fill *attention_capture* where given."""
    if attention_capture is not None:
        attention_capture.capture(module.layer_idx, query, key, scaling=options["scaling"])
    output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    return output, None


def register() -> None:
    """
    Register the attention with transformers as ATTENTION_NAME.

    Its mask function is registered with it, because transformers otherwise makes no mask, and
    several positions after cached ones would attend to positions after them.
    """
    AttentionInterface.register(ATTENTION_NAME, attention)
    AttentionMaskInterface.register(ATTENTION_NAME, sdpa_mask)
