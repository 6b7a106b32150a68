"""A growing buffer of an utterance's audio, which finds quiet places to cut it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEARCH_SECONDS = 0.1  # how far from a word boundary a quiet place for a cut is searched
REMAINDER_SECONDS = 0.15  # how much too late the rest of a cut word may be timed
# The length in samples of the spans compared in that search.  If the search is long enough, they
# are longer than the closures inside most words, because a closure is as quiet as a pause.
ENERGY_WINDOW = SAMPLE_RATE // 10
SHORT_ENERGY_WINDOW = SAMPLE_RATE // 50


class AudioBuffer:
    """A growing array of float32 samples; trimming its front does not renumber them."""

    def __init__(self) -> None:
        self.start = 0  #: number of the first sample still held
        self.end = 0  #: number of the first sample of the next append
        self._pieces: list[NDArray[np.float32]] = [np.empty(0, dtype=np.float32)]

    def __len__(self) -> int:
        """Return the number of samples held."""
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
        """Drop the samples before number *start*, which must not be after `end`."""
        if start > self.start:
            # The dropped samples stay in memory until the rest is joined with later pieces.
            pieces = [self._joined()[start - self.start :]]
            self.start, self._pieces = start, pieces

    def quietest_sample(self, start: float, end: float) -> int:
        """
        Return the number of the quietest sample held from *start* to *end*, in seconds.

        That is the middle of the span of ENERGY_WINDOW samples with the least energy, the earliest
        of several.  Few samples are compared in shorter spans; of very few the middle is returned.
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
        # Joined only when needed, because a backlog is appended in many pieces.
        if len(self._pieces) > 1:
            self._pieces = [np.concatenate(self._pieces)]
        return self._pieces[0]
