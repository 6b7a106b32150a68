"""Compare the length of a wav file with its header while FFmpeg reads it."""

from __future__ import annotations

import struct

__all__ = ["WavCheck"]

_RIFF_HEADER = 12  # bytes before the first chunk
_CHUNK_HEADER = struct.Struct("<4sI")
_PLACEHOLDER = 0x7FFF_0000  # writers to a pipe put the largest size they can, of 31 or 32 bits


class WavCheck:
    """Know whether a wav file is shorter than the header in *head*, its first bytes, promises."""

    damaged_position: int | None = None

    def __init__(self, head: bytes) -> None:
        self._end = 0
        self._promised_end = 0
        position = _RIFF_HEADER
        while position + _CHUNK_HEADER.size <= len(head):
            name, size = _CHUNK_HEADER.unpack_from(head, position)
            position += _CHUNK_HEADER.size
            if name == b"data":
                self._promised_end = position + size if size < _PLACEHOLDER else 0
                return
            position += size + size % 2

    @property
    def is_cut(self) -> bool:
        """Whether the file ends before its samples do."""
        return self._end < self._promised_end

    def feed(self, position: int, data: bytes) -> None:
        """Count the bytes that were read at *position*."""
        self._end = max(self._end, position + len(data))
