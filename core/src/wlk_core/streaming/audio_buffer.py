"""A growing buffer of the audio of an utterance, and the quiet places where it can be cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEARCH_SECONDS = 0.1  # how far from a word boundary the quietest place for a cut may lie
REMAINDER_SECONDS = 0.15  # by which the rest of a word that was cut may be placed too late
# Samples whose energy is compared to find that place: longer than the closures inside most words
# where the search is long enough, because a closure is as quiet as a pause.
ENERGY_WINDOW = SAMPLE_RATE // 10
SHORT_ENERGY_WINDOW = SAMPLE_RATE // 50


class AudioBuffer:
    """A growing array of float32 samples, which keep their numbers when its front is trimmed."""

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
        """Return samples number *start* up to *end*, read-only; IndexError if one is not held."""
        if not self.start <= start <= end <= self.end:
            raise IndexError(
                f"samples {start} to {end} requested, {self.start} to {self.end} are held"
            )
        window = self._joined()[start - self.start : end - self.start]
        window.flags.writeable = False
        return window

    def trim(self, start: int) -> None:
        """Drop the samples before number *start*, which is not after the last one."""
        if start > self.start:
            # What is dropped stays in memory until the next append is joined to the rest.
            pieces = [self._joined()[start - self.start :]]
            self.start, self._pieces = start, pieces

    def quietest_sample(self, start: float, end: float) -> int:
        """
        Return the number of the quietest sample held from *start* to *end*, in seconds.

        That is the middle of the span of ENERGY_WINDOW samples with the least energy, the earliest
        of several.  Of few samples shorter spans are compared, and of very few it is the middle.
        """
        first = min(max(self.start, round(start * SAMPLE_RATE)), self.end)
        final = min(max(first, round(end * SAMPLE_RATE)), self.end)
        samples = self.view(first, final)
        window = max(SHORT_ENERGY_WINDOW, min(ENERGY_WINDOW, len(samples) // 2))
        if len(samples) <= window:
            return first + len(samples) // 2
        energy = np.concatenate(([0.0], np.cumsum(np.square(samples, dtype=np.float64))))
        return first + int(np.argmin(energy[window:] - energy[:-window])) + window // 2

    def _joined(self) -> NDArray[np.float32]:
        # Joined when they are needed, because a backlog is appended in many pieces.
        if len(self._pieces) > 1:
            self._pieces = [np.concatenate(self._pieces)]
        return self._pieces[0]
