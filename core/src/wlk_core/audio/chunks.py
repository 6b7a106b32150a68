"""Cutting audio into chunks of one length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wlk_core.errors import WLKError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

__all__ = ["rechunk"]


def rechunk(pieces: Iterable[NDArray[np.float32]], samples: int) -> Iterator[NDArray[np.float32]]:
    """
    Yield the audio of *pieces* in chunks of exactly *samples*, the last one shorter, none empty.

    Every sample is copied at most once and a chunk is yielded as soon as it is full.  A
    chunk may be a view of a piece.  If *pieces* raises WLKError or OSError, as `decode_file` does
    at damage, what came before is yielded first, so that nothing in front of a failure is lost.

    Raises:
        ValueError: *samples* is not positive.

    """
    if samples <= 0:
        raise ValueError(f"`samples` must be positive, got {samples}")
    return _rechunked(pieces, samples)


def _rechunked(
    pieces: Iterable[NDArray[np.float32]], samples: int
) -> Iterator[NDArray[np.float32]]:
    waiting: list[NDArray[np.float32]] = []
    missing = samples
    try:
        for piece in pieces:
            position = 0
            while len(piece) - position >= missing:
                waiting.append(piece[position : position + missing])
                position += missing
                chunk, waiting, missing = _joined(waiting), [], samples
                yield chunk
            if position < len(piece):
                waiting.append(piece[position:])
                missing -= len(piece) - position
    except (WLKError, OSError):
        if waiting:
            yield _joined(waiting)
        raise
    if waiting:
        yield _joined(waiting)


def _joined(pieces: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
