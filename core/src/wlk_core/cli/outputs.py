"""Where results go: standard output, a file, or a file for each recording in a directory."""

from __future__ import annotations

from contextlib import suppress
import os
from pathlib import Path
import sys
from typing import TYPE_CHECKING, TextIO

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The ending of a file in each format.
SUFFIXES = {"text": ".txt", "json": ".json", "jsonl": ".jsonl", "srt": ".srt", "vtt": ".vtt"}
STYLES = {suffix: style for style, suffix in SUFFIXES.items()}  #: the reverse


class Output:
    """
    Standard output as it is now, or a file, device or pipe that can be followed.

    `before` clears what may be drawn on the same terminal.
    """

    def __init__(self, path: Path | None = None, before: Callable[[], None] = lambda: None) -> None:
        self._path = path
        self._before = before
        self._stream: TextIO | None = None if path else sys.stdout

    def write(self, text: str) -> None:
        """Write and flush; OSError names the output."""
        self._before()
        # A file is opened with its first text and flushed after each: `tail -f` and a power cut
        # find all that was written.  Of what is not Unicode, such as a file name, the escape is
        # what JSON has too.
        try:
            if self._path and not self._stream:
                self._stream = self._path.open("w", encoding="utf-8", errors="backslashreplace")
            if self._stream:
                self._stream.write(text)
                self._stream.flush()
        except OSError as error:
            if self._path is None and isinstance(error, BrokenPipeError):
                raise
            self.close(is_complete=False)
            name = self._path or "standard output"
            raise OSError(f"cannot write {name}: {error.strerror or error}") from error

    def close(self, *, is_complete: bool = True) -> None:
        """Close a file; only a complete result without text empties what was there before."""
        if self._path and is_complete and not self._stream:
            self.write("")
        if self._path and self._stream:
            with suppress(OSError):  # of a disk that is full; the failure was reported
                self._stream.close()


class ArrayOutput(Output):
    """Standard output for the objects of several files in one JSON array, valid once ended."""

    _separator = "[\n"

    def write(self, text: str) -> None:
        """Write one object."""
        super().write(self._separator + text.rstrip("\n"))
        self._separator = ",\n"

    def end(self) -> None:
        """Close the bracket."""
        super().write("[]\n" if self._separator == "[\n" else "\n]\n")


def plan_outputs(
    files: Sequence[str], output: str | None, style: str | None, *, is_forced: bool = False
) -> list[tuple[str, Path | None]]:
    """
    Return the format and the file of each recording's result, None for standard output.

    The ending of a file chooses its format, where *style* is None.  Several recordings go into a
    directory, which is created.
    """
    if output is None or output == "-":
        if len(files) > 1 and style not in {None, "text", "json"}:
            raise click.UsageError(
                f"several files as {style} need a directory of their own: --output DIRECTORY"
            )
        return [(style or "text", None)] * len(files)
    if not output:
        raise click.UsageError("--output needs the path of a file or directory, got ''")
    paths = [Path(output)]
    is_directory = paths[0].is_dir() or output.endswith(("/", os.sep))
    ending = None if is_directory else STYLES.get(paths[0].suffix.lower())
    if len(files) > 1 or is_directory:
        names = ["stdin" if file == "-" else Path(file).stem for file in files]
        if name := next((name for name in names if names.count(name) > 1), None):
            raise click.UsageError(
                f"two recordings are called {name}; transcribe each with its own --output"
            )
        if ending is not None or paths[0].is_file():
            raise click.UsageError(f"expected a directory for several results, got {output}")
        paths = [paths[0] / f"{name}{SUFFIXES[style or 'text']}" for name in names]
        try:
            paths[0].parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise click.UsageError(f"--output {output}: {error.strerror}") from error
    elif style and ending not in {None, style}:
        raise click.UsageError(
            f"--output {output} is {ending} by its ending, but --format is {style}; leave "
            "--format out, or choose another ending"
        )
    for path in paths:
        check_target(path, "--output", recordings=files, is_forced=is_forced)
    return [(style or ending or "text", path) for path in paths]


def check_target(path: Path, option: str, *, recordings: Sequence[str], is_forced: bool) -> None:
    """Refuse a path that *option* named and that may not be written."""
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
