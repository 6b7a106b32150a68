"""Where results go: standard output, a file, or a file for each recording in a directory."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
import errno
import os
from pathlib import Path
import re
import secrets
import stat
import sys
from typing import TYPE_CHECKING, Protocol

import attrs
import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["FileOutput", "Output", "StandardOutput", "is_regular", "plan_outputs"]

EXTENSIONS = {"text": ".txt", "json": ".json", "jsonl": ".jsonl", "srt": ".srt", "vtt": ".vtt"}

_STANDARD = {"/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/(?:self|thread-self|(?P<process>\d+)))/fd/(?P<number>\d+)")
_MOST_LINKS = 40  # as Linux
# Errors where a file may be written and not replaced: one that is mounted, one in a folder that is
# not writable.
_IN_PLACE = {errno.EACCES, errno.EBUSY, errno.EPERM, errno.EROFS, errno.EXDEV}
_PERMISSIONS = 0o666  # less those that the user's umask takes away


class Output(Protocol):
    """A destination for text."""

    def write(self, text: str) -> None:
        """Write *text* so that it is there even if the program ends now."""
        ...

    def close(self) -> None:
        """Release it."""
        ...


@attrs.frozen
class StandardOutput:
    """Standard output; `before` clears what is drawn on the same terminal."""

    before: Callable[[], None] = lambda: None

    def write(self, text: str) -> None:
        """Write and flush; OSError names standard output."""
        self.before()
        try:
            click.echo(text, nl=False)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OSError(f"cannot write standard output: {error.strerror or error}") from error

    def close(self) -> None:
        """Leave it open for the next result."""


@attrs.define
class FileOutput:
    """
    A file that appears with the first text.

    A regular file is written under a name of its own in the same folder.  It takes the name
    `path`, and replaces the file there, with the first text, so that it can be followed while it
    grows; with `whole` it takes the name when it is closed.  A write that fails leaves the text
    before it, and every later write fails too.

    Everything else, such as a device or a pipe, is written as it is, and a symbolic link keeps
    leading to its file.
    """

    path: Path
    whole: bool = False
    option: str = "--output"  # which named the path, for messages
    _descriptor: int | None = None
    _draft: Path | None = None
    _size: int | None = None  # bytes of a regular file, None of anything else
    _failure: OSError | None = None

    def write(self, text: str) -> None:
        """Write; OSError names the file."""
        if self._failure is not None:
            raise self._failure
        try:
            if self._descriptor is None:
                self._open()
            self._append(text.encode("utf-8", "backslashreplace"))
            if not self.whole:
                self._take_name()
        except OSError as error:
            self._failure = self._explained(error)
            if self._draft is not None:  # it would stay: a file that failed may never be closed
                self._discard()
            raise self._failure from error

    def close(self) -> None:
        """Close the file; a whole one takes its name now."""
        try:
            if self._descriptor is not None and self._failure is None:
                self._take_name()
        except OSError as error:
            raise self._explained(error) from error
        finally:
            self._discard()

    def _discard(self) -> None:
        """Close what is open, and remove a file that has not taken its name."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        if self._draft is not None:
            with suppress(OSError):
                self._draft.unlink(missing_ok=True)
        self._descriptor = self._draft = None

    def _open(self) -> None:
        if (number := _standing_for(self.path)) is not None:
            self._descriptor = _duplicate(number)
            _begin_again(self._descriptor)
            return
        if not is_regular(self.path):
            self._descriptor = os.open(self.path, os.O_WRONLY | _O_BINARY)
            return
        self._size = 0
        target = _target(self.path)
        draft = target.with_name(f".wlk-{secrets.token_hex(8)}.part")
        flags = os.O_WRONLY | os.O_CREAT | _O_BINARY
        try:
            self._descriptor = os.open(draft, flags | os.O_EXCL, _PERMISSIONS)
        except OSError as error:
            if error.errno not in _IN_PLACE or not target.exists():
                raise
            self._descriptor = os.open(target, flags | os.O_TRUNC)
        else:
            self._draft = draft

    def _append(self, data: bytes) -> None:
        descriptor = self._descriptor
        assert descriptor is not None  # noqa: S101 -- narrows the type: `write` has opened it
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        except OSError:
            if self._size is not None:
                os.ftruncate(descriptor, self._size)
                os.lseek(descriptor, self._size, os.SEEK_SET)
            raise
        if self._size is not None:
            self._size += len(data)

    def _take_name(self) -> None:
        if self._draft is None:
            return
        target = _target(self.path)
        with suppress(FileNotFoundError):
            self._draft.chmod(stat.S_IMODE(target.stat().st_mode))
        try:
            self._replace(self._draft, target)
        except OSError as error:
            if error.errno not in _IN_PLACE or not target.is_file():
                raise
            self._write_in_place(target)
        self._draft = None

    def _replace(self, draft: Path, target: Path) -> None:
        if os.name != "nt" or self._descriptor is None:
            draft.replace(target)
            return
        os.close(self._descriptor)  # Windows renames no open file
        self._descriptor = None
        draft.replace(target)
        self._descriptor = os.open(target, os.O_WRONLY | os.O_APPEND | _O_BINARY)

    def _write_in_place(self, target: Path) -> None:
        """Copy the draft into a file that cannot be replaced, and go on there."""
        assert self._draft is not None  # noqa: S101 -- narrows the type: `_take_name` has one
        data = self._draft.read_bytes()
        descriptor = os.open(target, os.O_WRONLY | os.O_TRUNC | _O_BINARY)
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._size = descriptor, 0
        self._draft.unlink()
        self._append(data)

    def _explained(self, error: OSError) -> OSError:
        reason = error.strerror or str(error)
        return OSError(
            f"cannot write {self.path}: {reason}; choose another path with {self.option}"
        )


_O_BINARY = getattr(os, "O_BINARY", 0)  # of Windows, where text would get other line ends


def plan_outputs(
    files: Sequence[str], output: str | None, style: str, *, is_forced: bool = False
) -> list[Path] | list[None]:
    """
    Return the output file of each recording, None for standard output.

    One recording goes to the file *output*, or into it if it is a directory; several go into the
    directory *output*, which is created.  A file with content is replaced only if *is_forced*.

    Raises:
        click.UsageError: the format needs a directory, the names would collide, or files exist.

    """
    if output is None:
        if len(files) > 1 and style not in {"text", "json"}:
            raise click.UsageError(
                f"several files as {style} need a directory of their own: --output DIRECTORY"
            )
        return [None] * len(files)
    if not output:
        raise click.UsageError("--output needs the path of a file or a directory")
    target = Path(output)
    if len(files) == 1 and not target.is_dir() and not output.endswith(("/", os.sep)):
        paths = [target]
        if not _target(target).parent.is_dir():
            raise click.UsageError(f"--output {output}: there is no directory {target.parent}")
    else:
        paths = [target / name for name in _names(files, EXTENSIONS[style])]
        _make_directory(target)
    _check_recordings(files, paths)
    existing = [path for path in paths if is_regular(path) and _has_content(path)]
    if existing and not is_forced:
        more = f" and {len(existing) - 1} more files exist" if len(existing) > 1 else " exists"
        raise click.UsageError(
            f"{existing[0]}{more}; replace with --force, or choose another path with --output"
        )
    return paths


def is_regular(path: Path) -> bool:
    """Return whether writing *path* makes or replaces a file: it is no device, pipe or link to."""
    return _standing_for(path) is None and (path.is_file() or not path.exists())


def _check_recordings(files: Sequence[str], paths: Sequence[Path]) -> None:
    recordings = {}
    for file in files:
        with suppress(OSError):
            status = Path(file).stat()
            recordings[status.st_dev, status.st_ino] = file
    for path in paths:
        with suppress(OSError):
            status = path.stat()
            if recording := recordings.get((status.st_dev, status.st_ino)):
                raise click.UsageError(f"--output {path} would overwrite the recording {recording}")


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _names(files: Sequence[str], extension: str) -> list[str]:
    """Return a name for each file: its stem, or its whole name where stems are equal."""
    bare = ["stdin" if file == "-" else Path(file).name for file in files]
    stems = Counter(Path(name).stem for name in bare)
    names = [name if stems[Path(name).stem] > 1 else Path(name).stem for name in bare]
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        raise click.UsageError(
            f"several recordings are called {doubled[0]}; transcribe each with its own --output"
        )
    return [name + extension for name in names]


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(
            f"--output {path}: expected a directory for several files, {error.strerror}"
        ) from error


def _target(path: Path) -> Path:
    """Return the file that *path* leads to through symbolic links; it need not exist."""
    return Path(os.path.realpath(path))


def _standing_for(path: Path) -> int | None:
    """Return the descriptor that a path such as /dev/stdout or /dev/fd/63 stands for, if any."""
    text: str = os.path.abspath(path)  # noqa: PTH100 -- `resolve` would follow the links too far
    for _ in range(_MOST_LINKS):
        if text in _STANDARD:
            return _STANDARD[text]
        if match := _DESCRIPTOR.fullmatch(text):
            is_own = match["process"] in {None, str(os.getpid())}
            return int(match["number"]) if is_own else None
        try:
            link = os.readlink(text)  # noqa: PTH115 -- `text` is no Path
        except OSError:
            return None
        text = os.path.normpath(f"{text}/../{link}" if link[:1] != "/" else link)
    return None


def _duplicate(number: int) -> int:
    """Return a copy of a descriptor; that of results for 1, which is not where prints go."""
    if number == 1:
        sys.stdout.flush()
        with suppress(OSError, ValueError):
            number = sys.stdout.fileno()
    return os.dup(number)


def _begin_again(descriptor: int) -> None:
    """Empty a file that a shell opened to be written from its beginning; keep one it appends to."""
    import fcntl  # noqa: PLC0415 -- only where descriptors have paths, which is not on Windows

    is_appended = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND
    with suppress(OSError):  # a pipe has no position
        if not is_appended and os.lseek(descriptor, 0, os.SEEK_CUR) == 0:
            os.ftruncate(descriptor, 0)
