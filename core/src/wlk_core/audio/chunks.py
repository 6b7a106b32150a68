"""Cut audio into chunks of one length, at 16 kHz."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wlk_core.audio.resample import Resampler
from wlk_core.errors import WLKError
from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

__all__ = ["Chunker", "rechunk"]


class Chunker:
    """
    Cut pieces of audio of any lengths into chunks of exactly `samples` at 16 kHz.

    Every sample is copied at most once.  A chunk may be a view of a piece, whose audio has `rate`
    samples a second.

    Raises:
        ValueError: `samples` is not positive.

    """

    def __init__(self, samples: int, *, rate: int = SAMPLE_RATE) -> None:
        if samples <= 0:
            raise ValueError(f"`samples` must be positive, got {samples}")
        self._samples = samples
        self._resampler = Resampler(rate)
        self._waiting: list[NDArray[np.float32]] = []
        self._missing = samples

    def push(self, piece: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        """Append float32[n], n >= 0; return the chunks that are now full."""
        return self._cut(self._resampler.push(piece))

    def flush(self) -> list[NDArray[np.float32]]:
        """Return the samples that wait as one shorter chunk, or no chunk, and begin anew."""
        return self._cut(self._resampler.flush()) + self._joined()

    def _cut(self, piece: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        chunks: list[NDArray[np.float32]] = []
        while len(piece) >= self._missing:
            self._waiting.append(piece[: self._missing])
            piece = piece[self._missing :]
            chunks += self._joined()
        if len(piece):
            self._waiting.append(piece)
            self._missing -= len(piece)
        return chunks

    def _joined(self) -> list[NDArray[np.float32]]:
        waiting, self._waiting, self._missing = self._waiting, [], self._samples
        return [np.concatenate(waiting)] if len(waiting) > 1 else waiting


def rechunk(pieces: Iterable[NDArray[np.float32]], samples: int) -> Iterator[NDArray[np.float32]]:
    """
    Yield the audio of *pieces* in chunks of exactly *samples*, the last one shorter, none empty.

    A chunk is yielded as soon as it is full; see `Chunker` for copies and views.  If *pieces*
    raises WLKError or OSError, as `decode_file` does at damage, the audio before the failure is
    yielded first, so that no sound part is lost.

    Raises:
        ValueError: *samples* is not positive.

    """
    chunker = Chunker(samples)  # outside of the generator, so that an error is raised at once

    def chunks() -> Iterator[NDArray[np.float32]]:
        try:
            for piece in pieces:
                yield from chunker.push(piece)
        except (WLKError, OSError):
            yield from chunker.flush()
            raise
        yield from chunker.flush()

    return chunks()
