"""A temporary file that is decoded while it still arrives."""

from __future__ import annotations

import io
from tempfile import TemporaryFile
import threading

from wlk_serve.errors import RequestError

__all__ = ["GrowingFile"]

_HEAD_BYTES = 12
_STREAMED = (b"RIFF", b"fLaC", b"OggS", b"ID3", b"\x1aE\xdf\xa3")  # wav, flac, ogg, mp3, matroska
_SYNC = 0xFFE0  # the bits with which a frame of mp3 or aac begins


class GrowingFile:
    """
    A file on disk that one thread writes and another reads at the same time.

    A read waits for bytes that have not arrived.  Formats that FFmpeg decodes from their beginning
    cannot be read out of order, because FFmpeg would first look for chunks at their end, which
    arrives last.  Any other format can, as an mp4 whose index is at its end.
    """

    def __init__(self) -> None:
        self._file = TemporaryFile()  # noqa: SIM115 -- closed by `close`
        self._changed = threading.Condition()
        self._head = b""
        self._size = 0
        self._position = 0
        self._is_complete = False
        self._is_aborted = False

    @property
    def size(self) -> int:
        """How many bytes have arrived."""
        return self._size

    def write(self, data: bytes) -> None:
        """Append *data*."""
        with self._changed:
            if self._is_aborted:
                return
            self._head += data[: max(0, _HEAD_BYTES - len(self._head))]
            try:
                self._file.seek(self._size)
                self._file.write(data)
            except OSError as error:
                message = f"the recording cannot be kept: {error.strerror}"
                raise RequestError(
                    message, status=507, code="insufficient_storage", retry_after=60
                ) from error
            self._size += len(data)
            self._changed.notify_all()

    def finish(self) -> None:
        """Declare that all bytes have arrived."""
        with self._changed:
            self._is_complete = True
            self._changed.notify_all()

    def abort(self) -> None:
        """Let every read fail, also one that waits."""
        with self._changed:
            self._is_aborted = True
            self._changed.notify_all()

    def close(self) -> None:
        """Delete the file; nothing may read it any more."""
        self.abort()
        self._file.close()

    def read(self, size: int = -1) -> bytes:
        """
        Return up to *size* bytes, as soon as one has arrived; none at the end.

        Raises:
            OSError: the upload was aborted.

        """
        with self._changed:
            self._wait_for(self._position + 1 if size >= 0 else None)
            self._file.seek(self._position)
            data = self._file.read(size)
            self._position += len(data)
            return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move and return the position; from the end only when all bytes have arrived."""
        with self._changed:
            if whence == io.SEEK_END:
                self._wait_for(None)
            base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
            self._position = max(0, base + offset)
            return self._position

    def seekable(self) -> bool:
        """Return whether FFmpeg may read the format out of order; waits for its first bytes."""
        with self._changed:
            self._wait_for(_HEAD_BYTES)
            if self._head.startswith(_STREAMED):
                return False
            return int.from_bytes(self._head[:2]) & _SYNC != _SYNC

    def _wait_for(self, size: int | None) -> None:
        """Wait until *size* bytes have arrived, or all."""
        while not (self._is_complete or self._is_aborted):
            if size is not None and self._size >= size:
                return
            self._changed.wait()
        if self._is_aborted:
            raise OSError("the upload was aborted")
