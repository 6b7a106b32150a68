"""Where results go: standard output, a file, or a file for each recording in a directory."""

from __future__ import annotations

from collections import Counter
import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, TextIO

import attrs
import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["FileOutput", "Output", "StandardOutput", "check_target", "plan_outputs", "replace_file"]

_EXTENSIONS = {"text": ".txt", "json": ".json", "jsonl": ".jsonl", "srt": ".srt", "vtt": ".vtt"}


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

    stream: TextIO
    before: Callable[[], None] = lambda: None

    def write(self, text: str) -> None:
        """Write and flush; OSError names standard output."""
        self.before()
        try:
            self.stream.write(text)
            self.stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OSError(f"cannot write standard output: {error.strerror or error}") from error

    def close(self) -> None:
        """Leave it open for the next result."""


@attrs.define
class FileOutput:
    """A file, device or pipe that is opened with the first text and can be followed."""

    path: Path
    _file: BinaryIO | None = None

    def write(self, text: str) -> None:
        """Append without a buffer; OSError names the file."""
        try:
            if self._file is None:
                self._file = self.path.open("wb", buffering=0)
            data = encoded(text)
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def replace_file(path: Path, text: str) -> None:
    """
    Let the file *path* contain *text*, all of it or none; a device or a pipe is written.

    Raises:
        OSError: it cannot be written; the message names it.

    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(encoded(text))
            return
        target = Path(os.path.realpath(path))  # a symbolic link keeps leading to its file
        draft = target.with_name(f".wlk-{os.getpid()}.part")
        try:
            draft.write_bytes(encoded(text))
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error


def encoded(text: str) -> bytes:
    """Return UTF-8; of what is not Unicode, such as a file name, the escape that JSON has too."""
    return text.encode("utf-8", "backslashreplace")


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
    else:
        paths = [target / name for name in _names(files, _EXTENSIONS[style])]
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise click.UsageError(
                f"--output {output}: expected a directory for several files, {error.strerror}"
            ) from error
    for path in paths:
        check_target(path, "--output", recordings=files, is_forced=is_forced)
    return paths


def check_target(path: Path, option: str, *, recordings: Sequence[str], is_forced: bool) -> None:
    """
    Refuse a path that *option* named and that may not be written.

    Raises:
        click.UsageError: its directory is absent, it is one of the *recordings*, or it has content
            and the command is not forced.

    """
    if not path.parent.is_dir():
        raise click.UsageError(f"{option} {path}: there is no directory {path.parent}")
    for recording in recordings:
        if path.exists() and Path(recording).exists() and path.samefile(recording):
            raise click.UsageError(f"{option} {path} would overwrite the recording {recording}")
    if not is_forced and path.is_file() and path.stat().st_size:
        raise click.UsageError(
            f"{option} {path}: it exists; replace it with --force, or choose another path"
        )


def _names(files: Sequence[str], extension: str) -> list[str]:
    """Return a name for each file: its stem, or its whole name where stems are equal."""
    bare = [Path("stdin") if file == "-" else Path(file) for file in files]
    stems = Counter(path.stem for path in bare)
    names = [path.name if stems[path.stem] > 1 else path.stem for path in bare]
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise click.UsageError(
            f"several recordings are called {name}; transcribe each with its own --output"
        )
    return [name + extension for name in names]


def _unwritable(path: Path, error: OSError) -> OSError:
    return OSError(f"cannot write {path}: {error.strerror or error}; choose another path")
