"""Where results go: standard output, a file, or a file for each recording in a directory."""

from __future__ import annotations

from collections import Counter
import os
from pathlib import Path
import secrets
from typing import TYPE_CHECKING, Literal, Protocol, TextIO

import attrs
import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["FileOutput", "Output", "StandardOutput", "plan_outputs"]

_DESCRIPTORS = ("/dev/", "/proc/")  # whose links may lead to a file that a shell has opened
EXTENSIONS = {"text": ".txt", "json": ".json", "jsonl": ".jsonl", "srt": ".srt", "vtt": ".vtt"}


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

    With `whole` a regular file only ever appears complete: the text is written to a draft beside
    it, which takes its name in the end.  A device or a pipe is written directly, and a symbolic
    link keeps leading to its file.
    """

    path: Path
    whole: bool = False
    _draft: Path | None = None
    _file: TextIO | None = None

    def write(self, text: str) -> None:
        """Write and flush; OSError names the file."""
        try:
            if self._file is None:
                self._file = self._open()
            self._file.write(text)
            self._file.flush()
        except OSError as error:
            raise self._explained(error) from error

    def close(self) -> None:
        """Close the file; a draft takes its name now."""
        if self._file is None:
            return
        try:
            self._file.close()
            if self._draft is not None:
                self._draft.replace(self._target)
        except OSError as error:
            if self._draft is not None:
                self._draft.unlink(missing_ok=True)
            raise self._explained(error) from error

    @property
    def _target(self) -> Path:
        return Path(os.path.realpath(self.path))

    def _open(self) -> TextIO:
        is_regular = self.path.is_file() or not self.path.exists()
        if self.whole and is_regular and not str(self.path).startswith(_DESCRIPTORS):
            path = self._target
            self._draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
            return _opened(self._draft, "x")
        return _opened(self.path, "w")

    def _explained(self, error: OSError) -> OSError:
        reason = error.strerror or str(error)
        return OSError(f"cannot write {self.path}: {reason}; choose another path with --output")


def _opened(path: Path, mode: Literal["w", "x"]) -> TextIO:
    return path.open(mode, encoding="utf-8", errors="backslashreplace", newline="\n")


def plan_outputs(files: Sequence[str], output: str | None, style: str) -> list[Path] | list[None]:
    """
    Return the output file of each recording, None for standard output.

    One recording goes to the file *output*, or into it if it is a directory; several go into the
    directory *output*, which is created.

    Raises:
        click.UsageError: the format needs a directory, or the names would collide.

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
        if not target.parent.is_dir():
            raise click.UsageError(f"--output {output}: there is no directory {target.parent}")
    else:
        paths = [target / name for name in _names(files, EXTENSIONS[style])]
        _make_directory(target)
    for file, path in zip(files, paths, strict=True):
        if path.exists() and Path(file).exists() and path.samefile(file):
            raise click.UsageError(f"--output {output} would overwrite the recording {file}")
    return paths


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
