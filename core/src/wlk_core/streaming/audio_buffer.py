"""The audio of an utterance that the model still needs, addressed by sample number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["AudioBuffer"]

_FIRST_CAPACITY = 1 << 16  # samples, 4.1 s at 16 kHz


class AudioBuffer:
    """
    A growing array of float32 samples that is trimmed at the front.

    Samples are numbered from 0 in the order of appending, and trimming does not renumber them.
    Appending is O(chunk) amortised, because storage doubles.  Trimmed space at the front is reused
    before the storage grows, so memory is bounded by twice the largest number of samples ever held.
    """

    def __init__(self) -> None:
        self._storage: NDArray[np.float32] = np.empty(_FIRST_CAPACITY, dtype=np.float32)
        self._offset = 0  # index of sample number `start` in the storage
        self._start = 0
        self._end = 0

    @property
    def start(self) -> int:
        """Number of the first sample still held."""
        return self._start

    @property
    def end(self) -> int:
        """Number of the first sample of the next append."""
        return self._end

    def __len__(self) -> int:
        """Count the samples held."""
        return self._end - self._start

    @property
    def nbytes(self) -> int:
        """Bytes of the samples held (not of the storage, which is at most twice the longest)."""
        return 4 * len(self)

    def append(self, audio: NDArray[np.float32]) -> None:
        """Copy *audio*, float32[n], to the end of the samples held."""
        held, needed = len(self), len(self) + len(audio)
        if self._offset + needed > len(self._storage):
            room = self._storage
            if needed * 2 > len(room):
                capacity = max(_FIRST_CAPACITY, 1 << (needed * 2 - 1).bit_length())
                room = np.empty(capacity, dtype=np.float32)
            room[:held] = self._storage[self._offset : self._offset + held]
            self._storage, self._offset = room, 0
        self._storage[self._offset + held : self._offset + needed] = audio
        self._end += len(audio)

    def view(self, start: int, end: int) -> NDArray[np.float32]:
        """
        Return samples number *start* up to *end*, read-only and valid until the next append.

        Raises:
            IndexError: some of them are not held, or the range runs backwards.

        """
        if not self._start <= start <= end <= self._end:
            raise IndexError(
                f"samples {start} to {end} requested, {self._start} to {self._end} are held"
            )
        first = self._offset + start - self._start
        window = self._storage[first : first + end - start]
        window.flags.writeable = False
        return window

    def trim(self, start: int) -> None:
        """
        Drop the samples before number *start*; a number before the first sample changes nothing.

        Raises:
            IndexError: *start* lies after the last sample.

        """
        if start > self._end:
            raise IndexError(f"cannot trim to sample {start}: only {self._end} were appended")
        dropped = max(0, start - self._start)
        self._start += dropped
        self._offset += dropped
