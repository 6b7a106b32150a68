"""Read a recording, as fast as it is decoded or at the speed at which it was spoken."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from wlk_core.audio import sealed
from wlk_core.processor import SAMPLE_RATE
from wlk_live.audio import decode_file, rechunk
from wlk_live.session.driver import reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from wlk_live.session.driver import Read


def read_file(
    file: str, chunk_seconds: float, *, is_realtime: bool = False, channel: int | None = None
) -> Read:
    """Return a recording, or one channel of it, as a source of chunks."""
    if is_realtime:
        return Playback(file, chunk_seconds).read
    return reading(_chunks(file, chunk_seconds, channel))


def _chunks(file: str, seconds: float, channel: int | None = None) -> Iterator[NDArray[np.float32]]:
    decoded = decode_file(file, channel=channel)
    chunks = rechunk(decoded, max(1, round(seconds * SAMPLE_RATE)))
    return map(sealed, chunks)  # validated by the decoder


class Playback:
    """A recording as a live source: a chunk of *chunk_seconds* comes when its end was spoken."""

    def __init__(self, file: str, chunk_seconds: float = 0.1) -> None:
        self._chunks = _chunks(file, chunk_seconds)
        self._next: NDArray[np.float32] | None = None
        self._due = time.monotonic()  # when the end of `_next` has been spoken

    def read(self, seconds: float) -> list[NDArray[np.float32]] | None:
        """Return the next chunk if it is due within *seconds*, None at the end."""
        if self._next is None:
            self._next = next(self._chunks, None)
            if self._next is None:
                return None
            self._due += len(self._next) / SAMPLE_RATE
        time.sleep(max(0.0, min(seconds, self._due - time.monotonic())))
        if self._due > time.monotonic():
            return []
        chunk, self._next = self._next, None
        return [chunk]
