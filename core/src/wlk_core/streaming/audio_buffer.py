"""The audio of an utterance that the model still needs, addressed by sample number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["AudioBuffer"]


class AudioBuffer:
    """
    A growing array of float32 samples that is trimmed at the front.

    Samples are numbered from 0 in the order of appending, and trimming does not renumber them.
    """

    def __init__(self) -> None:
        self.start = 0  #: number of the first sample still held
        self.end = 0  #: number of the first sample of the next append
        self._pieces: list[NDArray[np.float32]] = [np.empty(0, dtype=np.float32)]

    def __len__(self) -> int:
        """Count the samples held."""
        return self.end - self.start

    @property
    def nbytes(self) -> int:
        """Bytes of the samples held."""
        return 4 * len(self)

    def append(self, audio: NDArray[np.float32]) -> None:
        """Append a copy of *audio*, float32[n]."""
        self._pieces.append(audio.copy())
        self.end += len(audio)

    def view(self, start: int, end: int) -> NDArray[np.float32]:
        """
        Return samples number *start* up to *end*, read-only.

        Raises:
            IndexError: some of them are not held, or the range runs backwards.

        """
        if not self.start <= start <= end <= self.end:
            raise IndexError(
                f"samples {start} to {end} requested, {self.start} to {self.end} are held"
            )
        window = self._joined()[start - self.start : end - self.start]
        window.flags.writeable = False
        return window

    def trim(self, start: int) -> None:
        """
        Drop the samples before number *start*; a number before the first sample changes nothing.

        Raises:
            IndexError: *start* lies after the last sample.

        """
        if start > self.end:
            raise IndexError(f"cannot trim to sample {start}: only {self.end} were appended")
        if start > self.start:
            # What is dropped stays in memory until the next append is joined to the rest.
            pieces = [self._joined()[start - self.start :]]
            self.start, self._pieces = start, pieces

    def _joined(self) -> NDArray[np.float32]:
        # Joined when they are needed, because a backlog is appended in many pieces.
        if len(self._pieces) > 1:
            self._pieces = [np.concatenate(self._pieces)]
        return self._pieces[0]
