"""Where results go: standard output, a file, or a file for each recording in a directory."""

from __future__ import annotations

from collections import Counter
import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

import attrs
import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "SUFFIXES",
    "FileOutput",
    "StandardOutput",
    "check_target",
    "plan_outputs",
    "replace_file",
]

#: The ending of a file in each format.
SUFFIXES = {"text": ".txt", "json": ".json", "jsonl": ".jsonl", "srt": ".srt", "vtt": ".vtt"}
_STYLES = {suffix: style for style, suffix in SUFFIXES.items()}


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

    def close(self, *, is_complete: bool = True) -> None:
        """Leave it open for the next result."""


@attrs.define
class FileOutput:
    """A file, device or pipe that is opened with the first text and can be followed."""

    path: Path
    _file: BinaryIO | None = None

    def write(self, text: str) -> None:
        """Append without a buffer; OSError names the file."""
        if text:  # a transcript that is replaced stays until the new one has words
            self._append(encoded(text))

    def close(self, *, is_complete: bool = True) -> None:
        """Close the file; only a complete result is written where it is empty."""
        if is_complete:
            self._append(b"")
        if self._file is not None:
            self._file.close()

    def _append(self, data: bytes) -> None:
        try:
            if self._file is None:
                self._file = self.path.open("wb", buffering=0)
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            raise _unwritable(self.path, error) from error


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
    files: Sequence[str],
    outputs: Sequence[str],
    styles: Sequence[str] = (),
    *,
    is_forced: bool = False,
) -> list[list[tuple[str, Path | None]]]:
    """
    Return the results of each recording: a format and a file, None for standard output.

    The ending of an output chooses its format, where *styles* are empty.  One recording goes to a
    file, or into a directory in each of *styles*; several go into directories, which are created.
    A file with content is replaced only if *is_forced*.

    Raises:
        click.UsageError: formats and outputs do not fit, names would collide, or files exist.

    """
    columns = [_planned(files, output, styles) for output in outputs or ["-"]]
    plan = [[result for column in columns for result in column[row]] for row in range(len(files))]
    if unused := set(styles) - {style for style, _ in plan[0]}:
        raise click.UsageError(f"--format {min(unused)} has no --output")
    paths = [path for results in plan for _, path in results if path is not None]
    for path in paths:
        check_target(path, "--output", recordings=files, is_forced=is_forced)
        if paths.count(path) > 1:
            raise click.UsageError(f"--output {path} is given twice")
    return plan


def _planned(
    files: Sequence[str], output: str, styles: Sequence[str]
) -> list[list[tuple[str, Path | None]]]:
    """Return the results of each recording at one output."""
    if output in {"-", "/dev/stdout"}:
        if len(styles) > 1:
            raise click.UsageError("several formats need files; add --output DIRECTORY")
        style = styles[0] if styles else "text"
        if len(files) > 1 and style not in {"text", "json"}:
            raise click.UsageError(
                f"several files as {style} need a directory of their own: --output DIRECTORY"
            )
        return [[(style, None)] for _ in files]
    if not output:
        raise click.UsageError("--output needs the path of a file or a directory")
    target = Path(output)
    if len(files) == 1 and not target.is_dir() and not output.endswith(("/", os.sep)):
        return [[(_style(target, styles), target)]]
    try:
        if len(files) > 1 and target.suffix.lower() in _STYLES and not target.is_dir():
            raise FileExistsError(0, f"got one for a {target.suffix} file")
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(
            f"--output {output}: expected a directory for several files, {error.strerror}"
        ) from error
    styles = styles or ["text"]
    names = [_names(files, SUFFIXES[style]) for style in styles]
    return [
        [(style, target / name) for style, name in zip(styles, row, strict=True)]
        for row in zip(*names, strict=True)
    ]


def _style(path: Path, styles: Sequence[str]) -> str:
    """Return the format of a file, by its ending or as *styles* choose it."""
    ending = _STYLES.get(path.suffix.lower())
    if ending is None and len(styles) > 1:
        raise click.UsageError(
            f"--output {path}: several formats need a directory, or a file with the ending of each"
        )
    if ending is not None and styles and ending not in styles:
        raise click.UsageError(
            f"--output {path} is {ending} by its ending, but --format is {', '.join(styles)}; "
            "leave --format out, or choose another ending"
        )
    return ending or (styles[0] if styles else "text")


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
