"""Remove a constant offset from sound, as cheap or defective sound cards add it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OffsetRemoval"]

_BLOCK_SECONDS = 0.5  # a mean over less contains the low tones of a voice
_LEARNED = 0.25  # weight of a block: the offset follows within some two seconds
_SILENCES = 25  # parts of a block, 20 ms: sound with an offset is never zero for so long
_MIN_OFFSET = 0.007  # of full scale; recorded speech has means of up to 0.005 a block
_NO_SOUND: NDArray[np.float32] = np.empty(0, dtype=np.float32)


class OffsetRemoval:
    """
    Subtract the mean of one channel of sound where it is at least 0.7 % of full scale.

    This is a first-order high-pass at 0.1 Hz that works in blocks of half a second, whatever pieces
    the sound comes in.  It delays no tone of a voice by more than 2 microseconds.  Only the first
    block is held back, until its mean is known.  Sound without an offset is returned as it is, and
    so are blocks with digital silence, because an offset would be in the silence too.
    """

    def __init__(self, rate: int) -> None:
        self._size = max(1, round(rate * _BLOCK_SECONDS))
        window = np.hanning(self._size + 2)[1:-1]
        self._window = window / window.sum()
        self._block: list[NDArray[np.float32]] = []  # of which `_missing` samples did not come yet
        self._missing = self._size
        self._mean: float | None = None  # None until a block had one
        # What is subtracted at both ends of the block; None while the first block is held back.
        self._ramp: tuple[float, float] | None = None

    def push(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """Append float32[n]; return the sound that is ready, float32[m], m >= 0."""
        ready = [_NO_SOUND]
        while len(samples):
            part, samples = samples[: self._missing], samples[self._missing :]
            if self._ramp is not None:
                ready.append(self._corrected(part, self._size - self._missing, self._ramp))
            self._block.append(part)
            self._missing -= len(part)
            if not self._missing:
                block = np.concatenate(self._block)
                self._begin_block()
                offset = self._offset_after(block)
                if self._ramp is None:
                    ready.append(self._corrected(block, 0, (offset, offset)))
                    self._ramp = (offset, offset)
                else:
                    self._ramp = (self._ramp[1], offset)
        return np.concatenate(ready)

    def flush(self) -> NDArray[np.float32]:
        """
        Return the sound held back; the next push begins a block, with the offset so far.

        Sound shorter than the first block is returned as it is.
        """
        held = [_NO_SOUND, *self._block] if self._ramp is None else [_NO_SOUND]
        self._begin_block()
        offset = 0.0 if self._ramp is None else self._ramp[1]
        self._ramp = None if self._ramp is None else (offset, offset)
        return np.concatenate(held)

    def _begin_block(self) -> None:
        self._block, self._missing = [], self._size

    def _offset_after(self, block: NDArray[np.float32]) -> float:
        """Return the offset to subtract from what follows *block*, 0 for a small one."""
        size = max(1, len(block) // _SILENCES)
        parts = block[: len(block) // size * size].reshape(-1, size)
        if parts.any(axis=1).all():
            mean = float(np.dot(block, self._window))
            before = mean if self._mean is None else self._mean
            self._mean = before + _LEARNED * (mean - before)
        offset = self._mean or 0.0
        return offset if abs(offset) >= _MIN_OFFSET else 0.0

    def _corrected(
        self, part: NDArray[np.float32], first: int, ramp: tuple[float, float]
    ) -> NDArray[np.float32]:
        start, end = ramp
        if not start and not end:
            return part
        position = np.arange(first, first + len(part)) / self._size
        return (part - (start + (end - start) * position)).astype(np.float32)
