"""Fill gaps between decoded pieces, so that counting samples gives the container's times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["JITTER_SECONDS", "LONGEST_GAP_SECONDS", "Piece", "fill_gaps"]

JITTER_SECONDS = 0.05  # containers with millisecond clocks and live recorders wander this much
LONGEST_GAP_SECONDS = 4 * 3600.0  # a broken time stamp must not become a day of zeros
_FIRST_JITTER_SECONDS = 0.005  # the first time stamp is rounded, but does not wander
_RESTART_SECONDS = 1.0  # a step back by more is a restarted clock: spliced recordings
_BLOCK_SECONDS = 1.0  # zeros come in blocks, so that a long gap needs little memory


@attrs.frozen(kw_only=True)
class Piece:
    """
    Decoded sound of one channel at `rate`.

    `start` is its time in the container, None where the container has no time stamp.  The gap
    before a piece that `follows_damage` is lost sound and no restarted clock, however long it is.
    A piece that `fills_gap` is zeros.
    """

    rate: int
    samples: NDArray[np.float32]
    start: float | None = None
    follows_damage: bool = False
    fills_gap: bool = False


class _Clock:
    """The end of the sound so far, counted in samples of each rate that occurred."""

    def __init__(self, origin: float) -> None:
        self._origin = origin
        self._earlier_seconds = 0.0  # of sound at other rates
        self._samples = 0
        self._rate = 0

    @property
    def is_at_start(self) -> bool:
        return self._samples == 0 and self._earlier_seconds == 0.0

    def missing_samples(self, piece: Piece) -> int:
        """Count the samples between the sound so far and the piece; negative for an overlap."""
        if piece.rate != self._rate:
            if self._rate:
                self._earlier_seconds += self._samples / self._rate
            self._rate, self._samples = piece.rate, 0
        if piece.start is None:
            return 0
        return (
            round((piece.start - self._origin - self._earlier_seconds) * piece.rate) - self._samples
        )

    def jump(self, samples: int) -> None:
        """Move the origin by a step of the container's clock."""
        self._origin += samples / self._rate

    def advance(self, samples: int) -> None:
        self._samples += samples


def fill_gaps(pieces: Iterator[Piece], *, origin: float, longest_gap: float) -> Iterator[Piece]:
    """
    Yield the pieces with zeros in the gaps between them, so that counting samples gives times.

    `origin` is the container time of sample 0, or the first sound where that is earlier.  A gap
    longer than `longest_gap` seconds, or a step back, is a restarted container clock: nothing is
    filled in or left out.
    """
    clock = _Clock(origin)
    for piece in pieces:
        missing = clock.missing_samples(piece)
        longest = LONGEST_GAP_SECONDS if piece.follows_damage else longest_gap
        is_early = missing < 0 and clock.is_at_start
        is_restart = missing > longest * piece.rate or missing < -_RESTART_SECONDS * piece.rate
        if is_early or is_restart:
            clock.jump(missing)
            missing = 0
        jitter = _FIRST_JITTER_SECONDS if clock.is_at_start else JITTER_SECONDS
        if missing > jitter * piece.rate:
            yield from _zeros(missing, piece.rate)
            clock.advance(missing)
        clock.advance(len(piece.samples))
        yield Piece(rate=piece.rate, samples=piece.samples)


def _zeros(samples: int, rate: int) -> Iterator[Piece]:
    block = round(_BLOCK_SECONDS * rate)
    for start in range(0, samples, block):
        zeros = np.zeros(min(block, samples - start), dtype=np.float32)
        yield Piece(rate=rate, samples=zeros, fills_gap=True)
