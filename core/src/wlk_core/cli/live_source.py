"""Live audio for ``listen``: a microphone, or a file at the speed at which it was spoken."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

import numpy as np

from wlk_core.audio import decode_file, rechunk
from wlk_core.microphone import Captured
from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

__all__ = ["FileSource", "LiveSource", "level_decibels", "pcm16"]

_CHUNK_SECONDS = 0.1
_FULL_SCALE = 32_768.0
_QUIETEST = -96.0  # decibels, one step of 16 bits


class LiveSource(Protocol):
    """What `Microphone` and `FileSource` have in common."""

    @property
    def rate(self) -> int:
        """Samples a second."""
        ...

    @property
    def problem(self) -> str | None:
        """Why nothing is captured now."""
        ...

    def read(self, timeout: float) -> list[Captured] | None:
        """Return what came, waiting up to *timeout* seconds for it; None at the end."""
        ...

    def close(self) -> None:
        """Release it."""
        ...


class FileSource:
    """
    A recording, in chunks of 0.1 s that come when they would have been spoken.

    A reader that is slower gets everything that is due at once.
    """

    rate = SAMPLE_RATE
    problem: str | None = None

    def __init__(
        self,
        file: str,
        *,
        now: Callable[[], float] | None = None,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        self._chunks = self._decoded(file)
        self._now, self._sleep = now or time.monotonic, sleep or time.sleep
        self._began: float | None = None
        self._given = 0  # samples
        self._next: NDArray[np.float32] | None = None

    @staticmethod
    def _decoded(file: str) -> Iterator[NDArray[np.float32]]:
        yield from rechunk(decode_file(file), round(_CHUNK_SECONDS * SAMPLE_RATE))

    def read(self, timeout: float) -> list[Captured] | None:
        """
        Return the chunks that are due, waiting up to *timeout* seconds for one; None at the end.

        Raises:
            AudioFormatError, OSError: the file cannot be read, or not to its end.

        """
        if self._next is None:
            self._next = next(self._chunks, None)
            if self._next is None:
                return None
        if self._began is None:
            self._began = self._now()
        self._sleep(max(0.0, min(timeout, self._due() - self._now())))
        captured = []
        while self._next is not None and self._due() <= self._now():
            self._given += len(self._next)
            captured.append(Captured(self._next))
            self._next = next(self._chunks, None)
        return captured

    def close(self) -> None:
        """Release nothing, because the file is closed at its end."""

    def _due(self) -> float:
        """Return when the next chunk has been spoken."""
        length = 0 if self._next is None else len(self._next)
        return (self._began or 0.0) + (self._given + length) / SAMPLE_RATE


def pcm16(audio: bytes | NDArray[np.float32]) -> bytes:
    """Return captured audio as int16 samples, little-endian."""
    if isinstance(audio, bytes):
        return audio
    scaled = np.clip(np.round(audio * _FULL_SCALE), -_FULL_SCALE, _FULL_SCALE - 1)
    return scaled.astype("<i2").tobytes()


def level_decibels(audio: bytes | NDArray[np.float32]) -> float:
    """Return the level of captured audio in decibels below full scale, -96 for silence."""
    samples = np.frombuffer(pcm16(audio), dtype="<i2").astype(np.float32) / _FULL_SCALE
    power = float(np.mean(np.square(samples))) if len(samples) else 0.0
    return max(_QUIETEST, 10 * float(np.log10(max(power, 1e-12))))
