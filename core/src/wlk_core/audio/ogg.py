"""Check the pages of an Ogg file, and divide it where another stream is chained to the first."""

from __future__ import annotations

from io import RawIOBase
import struct
from typing import TYPE_CHECKING
import zlib

if TYPE_CHECKING:
    from wlk_core.audio.reader import Reader

__all__ = ["OggLinks"]

_CAPTURE = b"OggS"
_HEADER = struct.Struct("<4sBBqIIIB")  # RFC 3533: 27 bytes before the segment table
_BEGIN, _END = 0x02, 0x04  # flags of the first and the last page of a logical stream
_CRC = slice(22, 26)
_READ_BYTES = 32_768
_REVERSED_BITS = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


class OggLinks(RawIOBase):
    """
    The links of a chained Ogg file as one file after another.

    FFmpeg decodes each as a file, because it fails where the rate changes.  Reading ends with a
    link, and `next_link` begins the next one.  Pages with a wrong checksum are left out, as FFmpeg
    would do, and `damaged_position` is where the first one was in the link.
    """

    def __init__(self, reader: Reader) -> None:
        self.name = reader.name
        self._reader = reader
        self._raw = bytearray()  # not divided into pages yet
        self._is_at_end = False  # of the file
        self._begin_link()

    def readable(self) -> bool:
        """Return True; PyAV requires the method."""
        return True

    def seekable(self) -> bool:
        """Return False, because a link is read in order."""
        return False

    @property
    def is_cut(self) -> bool:
        """Whether the link that was read to its end has no last page."""
        return not self._has_last_page

    def read(self, size: int = -1, /) -> bytes:
        """Return up to *size* bytes of the link, none at its end."""
        while not self._ready and not self._is_link_over:
            self._divide()
        data = bytes(self._ready if size < 0 else self._ready[:size])
        del self._ready[: len(data)]
        self._position += len(data)
        return data

    def next_link(self) -> bool:
        """Skip the rest of the link; return whether another one follows."""
        while self.read(_READ_BYTES):
            pass
        self._begin_link()
        return bool(self._raw)

    def _begin_link(self) -> None:
        self._ready = bytearray()  # whole pages of the link
        self._position = 0  # of the first byte that is ready
        self._has_sound = False  # pages after the headers
        self._has_last_page = False
        self._is_link_over = False
        self.damaged_position: int | None = None

    def _divide(self) -> None:
        """Move one page to the bytes that are ready, or read more."""
        if not self._raw.startswith(_CAPTURE) and len(self._raw) >= len(_CAPTURE):
            self._add_damage()
            start = self._raw.find(_CAPTURE)
            del self._raw[: start if start >= 0 else 1 - len(_CAPTURE)]
        size = _page_size(self._raw)
        if size is None or len(self._raw) < size:
            data = b"" if self._is_at_end else self._reader.read(_READ_BYTES)
            self._raw += data
            if not data:
                self._end_file()
            return
        page = bytes(self._raw[:size])
        flags = page[5]
        if not _is_sound(page):
            self._add_damage()
            del self._raw[: len(_CAPTURE)]  # the size may be wrong too
        elif flags & _BEGIN and self._has_sound:
            self._is_link_over = True
        else:
            self._has_sound |= not flags & _BEGIN
            self._has_last_page = bool(flags & _END)
            self._ready += page
            del self._raw[:size]

    def _end_file(self) -> None:
        self._is_at_end = True
        following = self._raw.find(_CAPTURE, 1)
        if following < 0:
            self._raw.clear()
            self._is_link_over = True
        else:  # the size of a damaged page exceeds the file
            self._add_damage()
            del self._raw[:following]

    def _add_damage(self) -> None:
        if self.damaged_position is None:
            self.damaged_position = self._position + len(self._ready)


def _page_size(data: bytearray) -> int | None:
    """Return the size of the page at the beginning of *data*; None if more bytes are needed."""
    if len(data) < _HEADER.size:
        return None
    segments = data[_HEADER.size - 1]
    table = data[_HEADER.size : _HEADER.size + segments]
    return _HEADER.size + segments + sum(table) if len(table) == segments else None


def _is_sound(page: bytes) -> bool:
    """
    Return whether the checksum of a page is right.

    Ogg's CRC has zlib's polynomial with the bits of each byte and of the sum in reverse order, and
    neither begins nor ends with ones.
    """
    blank = page[: _CRC.start] + bytes(4) + page[_CRC.stop :]
    value = zlib.crc32(blank.translate(_REVERSED_BITS), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return value == int.from_bytes(page[_CRC].translate(_REVERSED_BITS), "big")
