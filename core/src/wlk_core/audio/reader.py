"""The open file that FFmpeg reads; FFmpeg may open no other."""

from __future__ import annotations

from io import RawIOBase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import BinaryIO

__all__ = ["Reader"]

_HEAD_BYTES = 4096  # enough to recognise a playlist by its opening


class Reader(RawIOBase):
    """
    An open file with the methods that PyAV calls; the file is never closed from here.

    Pipes are read as their data comes.  A failing disk or an interruption (Ctrl-C) while waiting
    for data looks like the end of the file to FFmpeg, because its callbacks must not raise.
    `failure` holds the exception afterwards.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.name = name
        self._file = file
        self._read = getattr(file, "read1", file.read)
        self._seekable = bool(file.seekable())
        self._head = b""
        self.failure: BaseException | None = None

    def head(self) -> bytes:
        """Return the first bytes; the next read returns them again."""
        head = b""
        if self._seekable:
            self._file.seek(0)
        while len(head) < _HEAD_BYTES and (more := self.read(_HEAD_BYTES)):
            head += more
        self.raise_failure()
        if self._seekable:
            self._file.seek(0)
        else:
            self._head = head
        return head

    def raise_failure(self) -> None:
        """Raise the exception of a failed read, if there is one."""
        if self.failure is not None:
            raise self.failure

    def raise_interruption(self) -> None:
        """Raise the exception that interrupted a read, unless the file itself failed."""
        if not isinstance(self.failure, OSError):
            self.raise_failure()

    def readable(self) -> bool:
        """Return True; PyAV requires the method."""
        return True

    def seekable(self) -> bool:
        """Return whether the file can be read out of order."""
        return self._seekable

    def read(self, size: int = -1, /) -> bytes:
        """Return up to *size* bytes, none at the end or after a failure."""
        if self._head:
            head, self._head = self._head[:size], self._head[size:]
            return head
        if self.failure is not None:
            return b""
        try:
            return self._read(size) or b""
        except OSError as error:
            self.failure = OSError(
                f"expected to read {self.name!r} to its end, got {error.strerror or error!r}; "
                "check the disk or the pipe"
            )
            self.failure.__cause__ = error
            return b""
        except BaseException as failure:  # noqa: BLE001 -- raised again by raise_failure
            self.failure = failure
            return b""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Move within the file and return the position."""
        return self._file.seek(offset, whence)
