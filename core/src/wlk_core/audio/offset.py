"""Remove a constant offset from sound, as cheap or defect sound cards add it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wlk_core.audio.gaps import Piece
from wlk_core.errors import WLKError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["OffsetRemoval", "without_offset"]

_BLOCK_SECONDS = 0.5  # a mean over less contains the low tones of a voice
_LEARNED = 0.25  # weight of a block: the offset follows within some two seconds
_SILENCES = 25  # parts of a block, 20 ms: sound with an offset is never zero for so long
_LEAST_OFFSET = 0.007  # of full scale; recorded speech has means of up to 0.005 a block
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
        self._waiting: list[NDArray[np.float32]] = []  # sound of the block that is not complete
        self._missing = self._size
        self._mean: float | None = None  # None until a block had one
        self._is_first = True
        self._ramp = (0.0, 0.0)  # what is subtracted at both ends of the block

    def push(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """Append float32[n]; return the sound that is ready, float32[m], m >= 0."""
        ready: list[NDArray[np.float32]] = []
        while len(samples):
            part, samples = samples[: self._missing], samples[self._missing :]
            if not self._is_first:
                ready.append(self._corrected(part))
            self._waiting.append(part)
            self._missing -= len(part)
            if not self._missing:
                ready += self._end_block()
        return ready[0] if len(ready) == 1 else np.concatenate([_NO_SOUND, *ready])

    def flush(self) -> NDArray[np.float32]:
        """
        Return the sound held back; the next push begins a block, with the offset so far.

        Sound shorter than the first block is returned as it is.
        """
        held = self._waiting if self._is_first else []
        self._begin_block()
        self._ramp = (self._ramp[1], self._ramp[1])
        return np.concatenate([_NO_SOUND, *held])

    def _end_block(self) -> list[NDArray[np.float32]]:
        block = np.concatenate(self._waiting)
        was_first, self._is_first = self._is_first, False
        self._begin_block()
        if not _has_digital_silence(block):
            mean = float(np.dot(block, self._window))
            before = mean if self._mean is None else self._mean
            self._mean = before + _LEARNED * (mean - before)
        offset = self._mean or 0.0
        if abs(offset) < _LEAST_OFFSET:
            offset = 0.0
        self._ramp = (offset if was_first else self._ramp[1], offset)
        return [self._subtracted(block, 0)] if was_first else []

    def _begin_block(self) -> None:
        self._waiting = []
        self._missing = self._size

    def _corrected(self, part: NDArray[np.float32]) -> NDArray[np.float32]:
        return self._subtracted(part, self._size - self._missing)

    def _subtracted(self, part: NDArray[np.float32], first: int) -> NDArray[np.float32]:
        start, end = self._ramp
        if not start and not end:
            return part
        position = np.arange(first, first + len(part)) / self._size
        return (part - (start + (end - start) * position)).astype(np.float32)


def without_offset(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """
    Yield the pieces without their offset; zeros that fill a gap stay zeros.

    If *pieces* raises WLKError or OSError, as at damage, the sound held back is yielded first.
    """
    removal: OffsetRemoval | None = None
    rate = 0
    try:
        for piece in pieces:
            if removal is not None and (piece.fills_gap or piece.rate != rate):
                yield Piece(rate=rate, samples=removal.flush())
            if piece.fills_gap:
                yield piece
                continue
            if removal is None or piece.rate != rate:
                removal, rate = OffsetRemoval(piece.rate), piece.rate
            yield Piece(rate=rate, samples=removal.push(piece.samples))
    except (WLKError, OSError):
        if removal is not None:
            yield Piece(rate=rate, samples=removal.flush())
        raise
    if removal is not None:
        yield Piece(rate=rate, samples=removal.flush())


def _has_digital_silence(block: NDArray[np.float32]) -> bool:
    size = max(1, len(block) // _SILENCES)
    parts = block[: len(block) // size * size].reshape(-1, size)
    return not parts.any(axis=1).all()
