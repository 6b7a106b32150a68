"""Where results go: standard output, a file, or a file for each recording in a directory."""

from __future__ import annotations

import os
from pathlib import Path
import sys
from typing import TYPE_CHECKING, BinaryIO

import attrs
import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The ending of a file in each format.
SUFFIXES = {"text": ".txt", "json": ".json", "jsonl": ".jsonl", "srt": ".srt", "vtt": ".vtt"}
_STYLES = {suffix: style for style, suffix in SUFFIXES.items()}


class StandardOutput:
    """Standard output as it is now; `before` clears what may be drawn on the same terminal."""

    def __init__(self, before: Callable[[], None]) -> None:
        self._stream = sys.stdout
        self._before = before

    def write(self, text: str) -> None:
        """Write and flush; OSError names standard output."""
        self._before()
        try:
            self._stream.write(text)
            self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OSError(f"cannot write standard output: {error.strerror or error}") from error

    def close(self, *, is_complete: bool) -> None:
        """Leave it open for the next result."""


class ArrayOutput(StandardOutput):
    """Standard output for the objects of several files in one JSON array, valid once ended."""

    _separator = "[\n"

    def write(self, text: str) -> None:
        """Write one object."""
        super().write(self._separator + text.rstrip("\n"))
        self._separator = ",\n"

    def end(self) -> None:
        """Close the bracket."""
        super().write("[]\n" if self._separator == "[\n" else "\n]\n")


@attrs.define
class FileOutput:
    """A file, device or pipe that is opened with its first text and can be followed."""

    path: Path
    _file: BinaryIO | None = None

    def write(self, text: str) -> None:
        """Append without a buffer; OSError names the file."""
        # Of what is not Unicode, such as a file name, the escape is what JSON has too.
        data = text.encode("utf-8", "backslashreplace")
        # Opened with the first text and never buffered: `tail -f` and a power cut find all that was
        # committed.
        try:
            if self._file is None:
                self._file = self.path.open("wb", buffering=0)
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            raise OSError(
                f"cannot write {self.path}: {error.strerror or error}; choose another path"
            ) from error

    def close(self, *, is_complete: bool = True) -> None:
        """Close the file; only a complete result without text empties what was there before."""
        if is_complete and self._file is None:
            self.write("")
        if self._file is not None:
            self._file.close()


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
    # Corrected subtitles are work that a second run with the same command must not destroy.  An
    # empty file, as mktemp makes it, holds none.
    if not is_forced and path.is_file() and path.stat().st_size:
        raise click.UsageError(
            f"{option} {path}: it exists; replace it with --force, or choose another path"
        )


def _names(files: Sequence[str], extension: str) -> list[str]:
    paths = [Path("stdin") if file == "-" else Path(file) for file in files]
    names = [path.stem for path in paths]
    if len(set(names)) < len(names):
        names = [path.name for path in paths]
    if doubled := [name for name in names if names.count(name) > 1]:
        raise click.UsageError(
            f"several recordings are called {doubled[0]}; transcribe each with its own --output"
        )
    return [name + extension for name in names]
