"""The one open file that FFmpeg may read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import BinaryIO

__all__ = ["Reader"]

_HEAD_BYTES = 4096  # enough to tell a playlist by its opening


class Reader:
    """
    What FFmpeg reads through: one open file, never closed from here.

    Pipes are read as their data comes.  A failing disk or an interruption (Ctrl-C) while waiting
    for data looks like the end of the file to FFmpeg, whose callbacks must not raise;
    `failure` tells of it afterwards.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.name = name
        self._file = file
        self._read = getattr(file, "read1", file.read)
        self._seekable = bool(file.seekable())
        self._head = b""
        self.failure: BaseException | None = None

    def head(self) -> bytes:
        """Return the first bytes, which stay to be read."""
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
        """Raise what a read has raised, if one has."""
        if self.failure is not None:
            raise self.failure

    def raise_interruption(self) -> None:
        """Raise what has interrupted a read, unless the file itself failed."""
        if not isinstance(self.failure, OSError):
            self.raise_failure()

    def readable(self) -> bool:
        """Say yes, as FFmpeg asks."""
        return True

    def seekable(self) -> bool:
        """Say whether the file can be read out of order."""
        return self._seekable

    def read(self, size: int) -> bytes:
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

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move within the file."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the position in the file."""
        return self._file.tell()
