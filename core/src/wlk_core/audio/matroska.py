"""Check the structure and the checksums of a Matroska file while FFmpeg reads it."""

from __future__ import annotations

import zlib

__all__ = ["MatroskaCheck"]

# Element ids of RFC 9559, with their length marker.
_EBML = 0x1A45DFA3
_SEGMENT = 0x18538067
_CLUSTER = 0x1F43B675
_CRC_32 = 0xBF
_LONGEST_ID = 4
_LONGEST_HEADER = 12  # an id of 4 bytes and a size of 8
_CRC_SIZE = 4
_LEVEL_1_BYTES = 4  # the ids of clusters and of their siblings have 4 bytes, those of children less


class MatroskaCheck:
    """
    Find the first byte at which a Matroska or WebM file is damaged.

    FFmpeg skips damaged parts silently.  Damage is an element that is no element or exceeds the one
    around it, or a cluster whose checksum, if it has one, is wrong.  FFmpeg writes checksums, and
    mkvmerge does not.  Bytes that FFmpeg skips or reads out of order are not checked.
    """

    damaged_position: int | None = None
    is_cut = False  # the length in the header shows it, see AudioSource.promised_end

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._start = 0  # position of the first byte in the buffer
        self._next = 0  # position of the next element
        self._is_done = False
        self._segment: _Span | None = None
        self._cluster: _Span | None = None
        self._crc: _Crc | None = None

    def feed(self, position: int, data: bytes) -> None:
        """Check the bytes that were read at *position*."""
        end = self._start + len(self._buffer)
        if self._is_done or self.damaged_position is not None or position + len(data) <= end:
            return
        if position > end:
            if position > self._next:
                return
            self._crc = None  # FFmpeg skipped a part of this element
            self._buffer.clear()
            self._start = end = position
        self._buffer += data[end - position :]
        self._read_elements()
        self._forget()

    def _read_elements(self) -> None:
        while not self._is_done and self.damaged_position is None:
            self._close_cluster()
            offset = self._next - self._start
            if offset < 0 or len(self._buffer) < offset + _LONGEST_HEADER + _CRC_SIZE:
                return
            header = _header(self._buffer, offset)
            if header is None:
                self._add_damage(self._next)
                return
            self._enter(*header)

    def _enter(self, element: int, length: int, size: int | None) -> None:
        content = self._next + length
        stop = None if size is None else content + size
        is_child = element >> 8 * (_LEVEL_1_BYTES - 1) == 0
        if self._cluster is not None and self._cluster.stop is None and not is_child:
            self._cluster = None  # a cluster of unknown size ends with its next sibling
        around = self._cluster or self._segment
        if around is None:
            self._enter_top(element, content, stop)
        elif around.stop is not None and (stop or content) > around.stop:
            self._add_damage(self._next)
        elif self._cluster is None and element == _CLUSTER:
            self._cluster = _Span(content, stop)
            self._next = content
        elif stop is None:
            self._add_damage(self._next)
        else:
            if (
                self._cluster is not None
                and element == _CRC_32
                and content - length == around.start
            ):
                self._begin_crc(content, stop, around)
            self._next = stop

    def _enter_top(self, element: int, content: int, stop: int | None) -> None:
        if element == _SEGMENT:
            self._segment = _Span(content, stop)
            self._next = content
        elif element == _EBML and stop is not None:
            self._next = stop
        else:
            self._is_done = True

    def _begin_crc(self, content: int, stop: int, cluster: _Span) -> None:
        if cluster.stop is None or stop - content != _CRC_SIZE:
            return
        offset = content - self._start
        expected = int.from_bytes(self._buffer[offset : offset + _CRC_SIZE], "little")
        self._crc = _Crc(expected, stop)

    def _close_cluster(self) -> None:
        for span in (self._cluster, self._segment):
            if span is None or span.stop is None or self._next < span.stop:
                continue
            if self._crc is not None and span is self._cluster:
                self._feed_crc(span.stop)
                if self._crc.position < span.stop:
                    return  # its last bytes are not here yet
                if self._crc.value != self._crc.expected:
                    self._add_damage(span.start)
                self._crc = None
            if span is self._cluster:
                self._cluster = None
            else:
                self._segment = None

    def _feed_crc(self, stop: int) -> None:
        if self._crc is not None and self._crc.position >= self._start:
            first = self._crc.position - self._start
            part = self._buffer[first : max(first, stop - self._start)]
            self._crc.value = zlib.crc32(part, self._crc.value)
            self._crc.position += len(part)

    def _forget(self) -> None:
        """Drop the bytes of elements that are checked."""
        if self._crc is not None and self._cluster is not None and self._cluster.stop is not None:
            self._feed_crc(self._cluster.stop)
        checked = min(self._next - self._start, len(self._buffer))
        if self._crc is not None:
            checked = min(checked, self._crc.position - self._start)
        del self._buffer[:checked]
        self._start += checked

    def _add_damage(self, position: int) -> None:
        self.damaged_position = position
        self._buffer.clear()


class _Span:
    """The content of a master element; `stop` is None where the header has no size."""

    def __init__(self, start: int, stop: int | None) -> None:
        self.start = start
        self.stop = stop


class _Crc:
    """The checksum of a cluster, computed up to `position`."""

    def __init__(self, expected: int, position: int) -> None:
        self.expected = expected
        self.position = position
        self.value = 0


def _header(data: bytearray, offset: int) -> tuple[int, int, int | None] | None:
    """Return id, length of the header and size of the element; None if there is no element."""
    id_length = 9 - data[offset].bit_length()
    size_offset = offset + id_length
    if id_length > _LONGEST_ID or not data[size_offset]:
        return None
    size_length = 9 - data[size_offset].bit_length()
    marker = 1 << 7 * size_length
    size = int.from_bytes(data[size_offset : size_offset + size_length], "big") - marker
    is_unknown = size == marker - 1
    element = int.from_bytes(data[offset:size_offset], "big")
    return element, id_length + size_length, None if is_unknown else size
