"""Play a recording at the speed at which it was spoken, in the place of a microphone."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from wlk_core.audio import decode_file, rechunk
from wlk_core.errors import AudioFormatError
from wlk_core.microphone import Captured
from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["FileSource", "level_decibels", "pcm16"]

_CHUNK_SECONDS = 0.1
_FULL_SCALE = 32_768.0
_MIN_DECIBELS = -96.0  # one step of 16 bits


class FileSource:
    """A recording with the calls of `Microphone`, in chunks of 0.1 s that come when spoken."""

    rate = SAMPLE_RATE
    problem: str | None = None

    def __init__(self, file: str) -> None:
        self._chunks = rechunk(decode_file(file), round(_CHUNK_SECONDS * SAMPLE_RATE))
        self._timed = self._with_times()
        self._next: tuple[float, NDArray[np.float32]] | None = None
        self._error: AudioFormatError | OSError | None = None

    def read(self, timeout: float) -> list[Captured] | None:
        """
        Return the chunks that are due, waiting up to *timeout* seconds for one; None at the end.

        Raises:
            AudioFormatError, OSError: the file cannot be read, or not to its end.

        """
        if self._next is None:
            self._next = next(self._timed, None)
            if self._error is not None:
                raise self._error
            if self._next is None:
                return None
        time.sleep(max(0.0, min(timeout, self._next[0] - time.monotonic())))
        captured = []
        while self._next is not None and self._next[0] <= time.monotonic():
            captured.append(Captured(self._next[1]))
            self._next = next(self._timed, None)
        return captured

    def close(self) -> None:
        """Release nothing, because the file is closed at its end."""

    def _with_times(self) -> Iterator[tuple[float, NDArray[np.float32]]]:
        """Yield each chunk and when it has been spoken; keep an error for later."""
        due: float | None = None
        try:
            for chunk in self._chunks:
                due = (time.monotonic() if due is None else due) + len(chunk) / SAMPLE_RATE
                yield due, chunk
        except (AudioFormatError, OSError) as error:
            self._error = error  # raised after the chunks before it were returned


def pcm16(audio: bytes | NDArray[np.float32]) -> bytes:
    """Return captured audio as int16 samples, little-endian."""
    if isinstance(audio, bytes):
        return audio
    scaled = np.clip(np.round(audio * _FULL_SCALE), -_FULL_SCALE, _FULL_SCALE - 1)
    return scaled.astype("<i2").tobytes()


def level_decibels(pcm: bytes) -> float:
    """Return the level of int16 samples in decibels below full scale, -96 for silence."""
    samples = np.frombuffer(pcm, dtype="<i2").astype(np.float32) / _FULL_SCALE
    power = float(np.mean(np.square(samples))) if len(samples) else 0.0
    return max(_MIN_DECIBELS, 10 * float(np.log10(max(power, 1e-12))))
