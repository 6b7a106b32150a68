"""Check the packets of an MPEG transport stream while FFmpeg reads it."""

from __future__ import annotations

import numpy as np

__all__ = ["TransportCheck"]

_SYNC = 0x47  # the first byte of every packet
_SIZES = (188, 192, 204)  # bytes a packet: broadcast, Blu-ray with a time stamp, with error codes
_PROOF = 4  # packets in a row that begin with the sync byte are a transport stream


class TransportCheck:
    """
    Find the first packet of a transport stream that does not begin with the sync byte.

    FFmpeg searches the next packet silently.  Continuity counters are not used, because segments
    of a live stream that were joined restart them; lost packets show as gaps between time stamps.

    Raises:
        ValueError: *head*, the first bytes of the file, belong to no transport stream.

    """

    damaged_position: int | None = None

    def __init__(self, head: bytes) -> None:
        for size in _SIZES:
            for start in range(size):
                if head[start : start + size * _PROOF : size] == bytes([_SYNC]) * _PROOF:
                    self._size, self._end = size, start
                    self._rest = b""
                    return
        raise ValueError("expected a transport stream, got no sync bytes")

    @property
    def is_cut(self) -> bool:
        """Whether the file ends within a packet."""
        return self.damaged_position is None and len(self._rest) > 0

    def feed(self, position: int, data: bytes) -> None:
        """Check the bytes that were read at *position*."""
        if self.damaged_position is not None or not position <= self._end < position + len(data):
            return
        fresh = self._rest + data[self._end - position :]
        start = self._end - len(self._rest)
        self._end = position + len(data)
        whole = len(fresh) - len(fresh) % self._size
        is_packet = np.frombuffer(fresh[:whole], dtype=np.uint8)[:: self._size] == _SYNC
        self._rest = fresh[whole:]
        if not is_packet.all():
            self.damaged_position = start + int(np.argmin(is_packet)) * self._size
