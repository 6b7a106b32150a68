"""Sounds that tests can reason about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from recordings import SAMPLE_RATE

if TYPE_CHECKING:
    from recordings import Audio

__all__ = ["tone"]


def tone(hertz: float, seconds: float) -> Audio:
    """Return half-scale sine samples."""
    time = np.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    return (0.5 * np.sin(2 * np.pi * hertz * time)).astype(np.float32)
