"""Audio as servers other than wlk-serve take it: 16-bit integers, little-endian, in base64."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["base64_pcm16"]

_FULL_SCALE = 32_768.0


def base64_pcm16(audio: NDArray[np.float32]) -> str:
    """Return float32[n] in [-1, 1] as base64 of int16; louder samples are clipped."""
    scaled = np.clip(np.rint(audio * _FULL_SCALE), -_FULL_SCALE, _FULL_SCALE - 1)
    return base64.b64encode(scaled.astype("<i2").tobytes()).decode("ascii")
