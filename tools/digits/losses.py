"""The losses of training: tokens, the decoder's attention, and the digit at each position."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from attrs import frozen
import torch
from torch import Tensor, nn
from torch.nn import functional
from vocabulary import COMPACT_SIZE, FIRST_TIMESTAMP, UNUSED_SIZE, compact

if TYPE_CHECKING:
    from batches import Draft
    from model import Whisper
    import numpy as np
    from numpy.typing import NDArray

_UNUSED = math.log(UNUSED_SIZE)
_FIRST_TIMESTAMP = compact(FIRST_TIMESTAMP)
# Shares of a target timestamp and of its neighbours, because one that is 20 ms off is hardly wrong.
_NEIGHBOURS = ((-2, 0.08), (-1, 0.2), (0, 0.44), (1, 0.2), (2, 0.08))
_TIMESTAMP_WEIGHT = 0.5


@frozen(kw_only=True)
class Weights:
    """Weights of the losses, relative to that of the tokens."""

    look: float = 0.3
    look_back: float = 0.1
    digits: float = 0.4


@frozen(kw_only=True)
class Losses:
    """Each loss of a draft."""

    tokens: Tensor
    look: Tensor
    look_back: Tensor

    def total(self, weights: Weights) -> Tensor:
        """Return the weighted sum."""
        return self.tokens + weights.look * self.look + weights.look_back * self.look_back


def measure(model: Whisper, memory: Tensor, draft: Draft) -> Losses:
    """Decode a draft from encoder states and return its losses."""
    logits, (below, *alignment) = model.decode(memory, torch.from_numpy(draft.inputs))
    looks, looks_back = torch.from_numpy(draft.looks), torch.from_numpy(draft.looks_back)
    return Losses(
        tokens=_token_loss(logits, torch.from_numpy(draft.outputs)),
        look=torch.stack([_divergence(attention, looks) for attention in alignment]).mean(),
        look_back=_divergence(below, looks_back),
    )


def digit_loss(digit_head: nn.Module, states: Tensor, digits: NDArray[np.int64]) -> Tensor:
    """Return the loss of digits, int64[B, N], predicted from encoder states B, N, width."""
    return functional.cross_entropy(digit_head(states).transpose(1, 2), torch.from_numpy(digits))


def _token_loss(logits: Tensor, outputs: Tensor) -> Tensor:
    """Cross-entropy over the full vocabulary: the last logit stands for every unused token."""
    logits = torch.cat([logits[..., :-1], logits[..., -1:] + _UNUSED], dim=-1)
    is_asked = outputs >= 0
    log_probabilities = torch.log_softmax(logits[is_asked], dim=-1)
    tokens = outputs[is_asked]
    losses = -log_probabilities.gather(1, tokens[:, None])[:, 0]
    is_time = tokens >= _FIRST_TIMESTAMP
    if is_time.any():
        near = sum(
            share
            * log_probabilities[is_time].gather(
                1, (tokens[is_time] + step).clamp(_FIRST_TIMESTAMP, COMPACT_SIZE - 1)[:, None]
            )
            for step, share in _NEIGHBOURS
        )
        losses = losses.masked_scatter(is_time, -_TIMESTAMP_WEIGHT * near[:, 0])
    return losses.mean()


def _divergence(log_attention: Tensor, looks: Tensor) -> Tensor:
    """Return how far attention (B, heads, U, T) is from its target, in rows that have one."""
    matters = looks.sum(-1) > 0
    if not matters.any():
        return log_attention.new_zeros(())
    surprise = -(looks * log_attention.mean(dim=1)).sum()
    entropy = -(looks * (looks + 1e-9).log()).sum()
    return (surprise - entropy) / matters.sum()
