"""Initial weights from which a small Whisper learns quickly, and those of an earlier run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from model import POSITIONS, Shape, Whisper, sinusoids
import numpy as np
import torch
from vocabulary import FIRST_TIMESTAMP, TIMESTAMPS, compact

if TYPE_CHECKING:
    from pathlib import Path

#: Positions by which each head of each encoder layer attends back or ahead at the start.
_SHIFTS = ((-4, 4, -14, 14), (-12, 12, -36, 36), (-6, 6, -25, 25))
#: Longest shift and the first sinusoid that suits it: slower ones for longer shifts.
_LOWEST = ((8, 2), (20, 4), (POSITIONS, 6))
_SHARPNESS = 1.6


@torch.no_grad()
def prepare(model: Whisper) -> None:
    """Initialise encoder heads as fixed shifts in time, and timestamps as sinusoids of time."""
    width = model.shape.width
    model.decoder.embed_tokens.weight.normal_(0, 0.08)
    model.decoder.embed_positions.weight.normal_(0, 0.05)
    times = sinusoids(width, TIMESTAMPS) * 0.3
    first = compact(FIRST_TIMESTAMP)
    model.decoder.embed_tokens.weight[first : first + TIMESTAMPS] = times
    for layer, shifts in zip(model.encoder.layers, _SHIFTS, strict=False):
        for head in range(model.shape.heads):
            _shift_head(layer.self_attn, head, shifts[head % len(shifts)], model.shape)


def _shift_head(attention: torch.nn.Module, head: int, shift: int, shape: Shape) -> None:
    """Make a head attend `shift` positions away: its query is a key rotated by that much."""
    half, size = shape.width // 2, shape.width // shape.heads
    pairs, first_row = size // 2, head * size
    scales = torch.exp(-math.log(10_000) / (half - 1) * torch.arange(half))
    lowest = next(first for longest, first in _LOWEST if abs(shift) <= longest)
    query, key = attention.q_proj.weight, attention.k_proj.weight
    query[first_row : first_row + size] *= 0.3
    key[first_row : first_row + size] *= 0.3
    for pair in range(pairs):
        frequency = lowest + pair
        turn = float(scales[frequency]) * shift
        sine, cosine = first_row + pair, first_row + pairs + pair
        query[sine, frequency] += _SHARPNESS * math.cos(turn)
        query[sine, half + frequency] += _SHARPNESS * math.sin(turn)
        query[cosine, half + frequency] += _SHARPNESS * math.cos(turn)
        query[cosine, frequency] -= _SHARPNESS * math.sin(turn)
        key[sine, frequency] += _SHARPNESS
        key[cosine, half + frequency] += _SHARPNESS


def load_weights(model: Whisper, path: Path) -> None:
    """Load the weights of an `.npz` file, with or without the leading `model.` of transformers.

    Raises:
        RuntimeError: names or sizes differ.
    """
    with np.load(path) as stored:
        weights = {
            name.removeprefix("model."): torch.from_numpy(stored[name].astype(np.float32))
            for name in stored.files
            if not name.startswith("__")
        }
    model.load_state_dict(weights)


def save_weights(model: Whisper, path: Path) -> None:
    """Store the weights in float32; an interrupted write leaves the old file intact."""
    unfinished = path.with_suffix(".unfinished.npz")
    np.savez(unfinished, **{name: tensor.numpy() for name, tensor in model.state_dict().items()})
    unfinished.replace(path)
