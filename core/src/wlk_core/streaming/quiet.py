"""Where a stretch of audio can be cut without cutting into a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["quietest_sample"]


def quietest_sample(audio: NDArray[np.float32], *, window: int) -> int:
    """
    Return the middle of the *window* samples of *audio* with the least energy.

    The earliest such place wins; an *audio*, float32[n], shorter than the window gives its middle.
    """
    if len(audio) <= window:
        return len(audio) // 2
    energy = np.cumsum(np.square(audio, dtype=np.float64))
    energy = np.concatenate(([0.0], energy))
    return int(np.argmin(energy[window:] - energy[:-window])) + window // 2
