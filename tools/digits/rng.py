"""Random decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def happens(share: float, rng: np.random.Generator) -> bool:
    """Return True with the probability *share*."""
    return bool(rng.random() < share)
