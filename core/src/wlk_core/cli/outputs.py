"""Where results go: standard output, a file, or a file for each recording in a directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

import attrs
import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "SUFFIXES",
    "ArrayOutput",
    "FileOutput",
    "StandardOutput",
    "check_target",
    "plan_outputs",
]

#: The ending of a file in each format.
SUFFIXES = {"text": ".txt", "json": ".json", "jsonl": ".jsonl", "srt": ".srt", "vtt": ".vtt"}
_STYLES = {suffix: style for style, suffix in SUFFIXES.items()}


@attrs.frozen
class StandardOutput:
    """Standard output; `before` clears what may be drawn on the same terminal."""

    stream: TextIO
    before: Callable[[], None]

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

    def close(self, *, is_complete: bool) -> None:
        """Leave it open for the next result."""


@attrs.define
class ArrayOutput:
    """The objects of several files in one JSON array, valid once it is ended."""

    _output: StandardOutput | FileOutput | ArrayOutput
    _is_empty: bool = True

    def write(self, text: str) -> None:
        """Write one object."""
        self._output.write(("[\n" if self._is_empty else ",\n") + text.rstrip("\n"))
        self._is_empty = False

    def close(self, *, is_complete: bool) -> None:
        """Leave it open for the next object."""

    def end(self) -> None:
        """Close the bracket."""
        self._output.write("[]\n" if self._is_empty else "\n]\n")


@attrs.define
class FileOutput:
    """
    A file, device or pipe that is opened with the first text and can be followed.

    With `is_whole` each text replaces the one before, all of it or nothing.
    """

    path: Path
    is_whole: bool = False
    _file: BinaryIO | None = None
    _has_text: bool = False

    def write(self, text: str) -> None:
        """Append without a buffer, or replace; OSError names the file."""
        self._has_text = True
        self._write(encoded(text))

    def close(self, *, is_complete: bool = True) -> None:
        """Close the file; only a complete result is written where it is empty."""
        if is_complete and not self._has_text:
            self._write(b"")
        if self._file is not None:
            self._file.close()

    def _write(self, data: bytes) -> None:
        try:
            if self.is_whole and (self.path.is_file() or not self.path.exists()):
                self._replace(data)
                return
            if self._file is None:
                self._file = self.path.open("wb", buffering=0)
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            raise OSError(
                f"cannot write {self.path}: {error.strerror or error}; choose another path"
            ) from error

    def _replace(self, data: bytes) -> None:
        target = Path(os.path.realpath(self.path))  # a symbolic link keeps leading to its file
        draft = target.with_name(f".wlk-{os.getpid()}.part")
        try:
            draft.write_bytes(data)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)


def encoded(text: str) -> bytes:
    """Return UTF-8; of what is not Unicode, such as a file name, the escape that JSON has too."""
    return text.encode("utf-8", "backslashreplace")


def plan_outputs(
    files: Sequence[str], output: str | None, style: str | None, *, is_forced: bool = False
) -> list[tuple[str, Path | None]]:
    """
    Return the format and the file of each recording's result, None for standard output.

    The ending of a file chooses its format, where *style* is None.  Several recordings go into a
    directory, which is created.  A file with content is replaced only if *is_forced*.

    Raises:
        click.UsageError: format and output do not fit, names would collide, or files exist.

    """
    if output in {None, "-"}:
        if len(files) > 1 and style not in {None, "text", "json"}:
            raise click.UsageError(
                f"several files as {style} need a directory of their own: --output DIRECTORY"
            )
        return [(style or "text", None)] * len(files)
    if not output:
        raise click.UsageError("--output needs the path of a file or a directory")
    target = Path(output)
    ending = None if target.is_dir() else _STYLES.get(target.suffix.lower())
    if len(files) == 1 and not target.is_dir() and not output.endswith(("/", os.sep)):
        if style and ending not in {None, style}:
            raise click.UsageError(
                f"--output {output} is {ending} by its ending, but --format is {style}; leave "
                "--format out, or choose another ending"
            )
        paths = [target]
        style = style or ending
    else:
        try:
            if ending:
                raise FileExistsError(0, f"got one for a {target.suffix} file")
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise click.UsageError(
                f"--output {output}: expected a directory for several files, {error.strerror}"
            ) from error
        paths = [target / name for name in _names(files, SUFFIXES[style or "text"])]
    for path in paths:
        check_target(path, "--output", recordings=files, is_forced=is_forced)
    return [(style or "text", path) for path in paths]


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
    paths = [Path("stdin") if file == "-" else Path(file) for file in files]
    names = [path.stem for path in paths]
    if len(set(names)) < len(names):
        names = [path.name for path in paths]
    if doubled := [name for name in names if names.count(name) > 1]:
        raise click.UsageError(
            f"several recordings are called {doubled[0]}; transcribe each with its own --output"
        )
    return [name + extension for name in names]
