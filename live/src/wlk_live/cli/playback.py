"""Read a recording as if a microphone captured it, in real time or as fast as it is decoded."""

from __future__ import annotations

import time

from wlk_core.processor import SAMPLE_RATE
from wlk_live.audio import decode_file, rechunk
from wlk_live.microphone import Captured


class Playback:
    """A recording as a source of audio in chunks of *chunk_seconds*; see `run.Source`."""

    rate = SAMPLE_RATE
    problem: str | None = None

    def __init__(self, file: str, chunk_seconds: float = 0.1, *, is_realtime: bool = True) -> None:
        self._chunks = rechunk(decode_file(file), max(1, round(chunk_seconds * SAMPLE_RATE)))
        self._is_realtime = is_realtime
        self._next: Captured | None = None
        self._due = time.monotonic()  # when the end of `_next` has been spoken, in real time

    def read(self, timeout: float) -> list[Captured] | None:
        """
        Return the next chunk if it is due within *timeout* seconds, None at the end.

        In real time a chunk is due when its end has been spoken, otherwise when the caller waits.
        """
        if not self._is_realtime and timeout == 0:
            return []
        if self._next is None:
            chunk = next(self._chunks, None)
            if chunk is None:
                return None
            self._next = Captured(chunk)
            self._due += len(chunk) / SAMPLE_RATE
        if self._is_realtime:
            time.sleep(max(0.0, min(timeout, self._due - time.monotonic())))
            if self._due > time.monotonic():
                return []
        block, self._next = self._next, None
        return [block]
