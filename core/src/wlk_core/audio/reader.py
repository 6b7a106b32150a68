"""The open file that FFmpeg reads; FFmpeg may open no other."""

from __future__ import annotations

from io import RawIOBase
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from typing import BinaryIO

__all__ = ["ByteCheck", "Reader"]

_HEAD_BYTES = 4096  # enough to recognise a playlist by its opening


class ByteCheck(Protocol):
    """A check of the bytes that FFmpeg reads, because it passes over some damage silently."""

    @property
    def damaged_position(self) -> int | None:
        """The position of the first damaged byte, None where none was found so far."""
        ...

    @property
    def is_cut(self) -> bool:
        """Whether the file ends too early, in a format without an error for that."""
        ...

    def feed(self, position: int, data: bytes) -> None:
        """Check the bytes that were read at *position*, which may be read again or skipped."""
        ...


class Reader(RawIOBase):
    """
    An open file with the methods that PyAV calls; the file is never closed from here.

    Pipes are read as their data comes.  A failing disk or an interruption (Ctrl-C) while waiting
    for data looks like the end of the file to FFmpeg, because its callbacks must not raise.
    `failure` holds the exception afterwards.  `check` is given every byte that is read.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.name = name
        self._file = file
        self._read = getattr(file, "read1", file.read)
        self._seekable = bool(file.seekable())
        self._head = b""
        self._position = 0
        self.check: ByteCheck | None = None
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
        self._position = 0
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
        data = self._take_head(size) or self._read_file(size)
        if self.check is not None:
            self.check.feed(self._position, data)
        self._position += len(data)
        return data

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Move within the file and return the position."""
        self._position = self._file.seek(offset, whence)
        return self._position

    def _take_head(self, size: int) -> bytes:
        head = self._head if size < 0 else self._head[:size]
        self._head = self._head[len(head) :]
        return head

    def _read_file(self, size: int) -> bytes:
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
