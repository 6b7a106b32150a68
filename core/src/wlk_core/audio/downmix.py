"""Mix the channels of a recording to one."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Downmix"]

logger = logging.getLogger("wlk_core.audio")

_CANCELLED = 0.1  # of the power of the difference: the mean loses 10 dB, no natural stereo does
_WARNING_SAMPLES = 8000  # 0.2 to 0.5 s of sound that cancels are a wiring fault and not chance
_MIN_POWER = 1e-6  # of full scale, -60 dB: below it there is nothing to cancel


class Downmix:
    """
    Average the channels of a recording, a frame at a time, and notice two that cancel each other.

    One channel with reversed wires is the negative of the other, so that their mean is silence.
    Where the mean of two channels has less than a tenth of the power of half their difference, the
    difference is returned, which is then the sound of the first channel.  The logger
    ``wlk_core.audio`` warns once for each recording *name*.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._cancelled_samples = 0

    def mix(self, channels: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return float32[n] of *channels*, float32[channels, n]."""
        mean: NDArray[np.float32] = channels.mean(axis=0, dtype=np.float32)
        if len(channels) != 2:  # noqa: PLR2004 -- only a pair can cancel by one reversed wire
            return mean
        half = np.float32(0.5)
        difference: NDArray[np.float32] = channels[0] * half - channels[1] * half
        with np.errstate(over="ignore", invalid="ignore"):
            power = float(np.dot(difference, difference))
            is_cancelled = float(np.dot(mean, mean)) < _CANCELLED * power
        if not is_cancelled or not _MIN_POWER * len(mean) < power < np.inf:
            return mean
        before = self._cancelled_samples
        self._cancelled_samples += len(mean)
        if before < _WARNING_SAMPLES <= self._cancelled_samples:
            logger.warning(
                "the two channels of %r cancel each other, as with the wires of one reversed; "
                "their difference is transcribed instead of their mean",
                self._name,
            )
        return difference
