"""Fill gaps between decoded pieces, so that counting samples gives the container's times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["Piece", "fill_gaps"]

_JITTER_SECONDS = 0.05  # containers with millisecond clocks and live recorders wander this much
_FIRST_JITTER_SECONDS = 0.005  # the first time stamp is rounded, but does not wander
_RESTART_SECONDS = 1.0  # a step back by more is a restarted clock: spliced recordings
_BLOCK_SECONDS = 1.0  # zeros come in blocks, so that a long gap needs little memory


@attrs.frozen(kw_only=True)
class Piece:
    """
    Decoded sound of one channel at `rate`.

    `start` is its time in the container in seconds, None where the container has no time stamp.
    """

    rate: int
    samples: NDArray[np.float32]
    start: float | None = None


def fill_gaps(pieces: Iterator[Piece], *, origin: float, max_gap: float) -> Iterator[Piece]:
    """
    Yield the pieces with zeros in the gaps between them, so that counting samples gives times.

    `origin` is the container time of sample 0, or the first sound where that is earlier.  A gap
    longer than `max_gap` seconds, or a step back, is a restarted container clock: nothing is
    filled in or left out.
    """
    # The sound so far ends at base + samples / rate, in container time.  Samples are counted
    # rather than durations added, because sums of rounded durations drift.
    base, samples, rate = origin, 0, 0
    is_first = True
    for piece in pieces:
        if piece.rate != rate:
            base += samples / rate if rate else 0.0
            samples, rate = 0, piece.rate
        missing = 0 if piece.start is None else round((piece.start - base) * rate) - samples
        is_restart = not -_RESTART_SECONDS * rate <= missing <= max_gap * rate
        if is_restart or (is_first and missing < 0):
            base += missing / rate
            missing = 0
        jitter = _FIRST_JITTER_SECONDS if is_first else _JITTER_SECONDS
        if missing > jitter * rate:
            samples += missing
            while missing:
                block = min(missing, round(_BLOCK_SECONDS * rate))
                missing -= block
                zeros = np.zeros(block, dtype=np.float32)
                yield Piece(rate=rate, samples=zeros)
        samples += len(piece.samples)
        is_first = is_first and not samples
        yield piece
