"""Plan which recordings are transcribed, and which files their results go to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import attrs
import click

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The file extension of each format.
SUFFIXES = {"text": ".txt", "json": ".json", "jsonl": ".jsonl", "srt": ".srt", "vtt": ".vtt"}
STYLES = {suffix: style for style, suffix in SUFFIXES.items()}  #: the reverse


class Target(NamedTuple):
    """Where a result goes."""

    style: str  #: a format, or "wav" for the audio itself
    path: Path | None  #: None for standard output


@attrs.frozen
class Job:
    """A recording to transcribe, and where its results go."""

    file: str | None  #: None for a microphone
    targets: tuple[Target, ...]


def plan_outputs(
    files: Sequence[str], output: str | None, style: str | None, *, is_forced: bool = False
) -> list[Target]:
    """
    Return where the result of each recording goes.

    If *style* is None, the extension of *output* chooses the format.  The results of several
    recordings go into a directory, which is created.
    """
    if output is None or output == "-":
        if len(files) > 1 and style not in {None, "text", "json"}:
            raise click.UsageError(
                f"several files as {style} need a directory of their own: --output DIRECTORY"
            )
        return [Target(style or "text", None) for _ in files]
    if not output:
        raise click.UsageError("--output needs the path of a file or directory, got ''")
    path = Path(output)
    is_directory = path.is_dir() or output.endswith(("/", os.sep))
    implied = None if is_directory else STYLES.get(path.suffix.lower())
    if is_directory or len(files) > 1:
        names = _result_names(files)
        if implied is not None or path.is_file():
            raise click.UsageError(f"expected a directory for several results, got {output}")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise click.UsageError(f"--output {output}: {error.strerror}") from error
        paths = [path / f"{name}{SUFFIXES[style or 'text']}" for name in names]
    else:
        if style and implied not in {None, style}:
            raise click.UsageError(
                f"--output {output} has the extension of {implied}, but --format is {style}; leave "
                "--format out, or choose another extension"
            )
        paths = [path]
    for each in paths:
        check_target(each, "--output", recordings=files, is_forced=is_forced)
    return [Target(style or implied or "text", each) for each in paths]


def _result_names(files: Sequence[str]) -> list[str]:
    """Return the name of each recording's result, without an extension."""
    names = ["stdin" if file == "-" else Path(file).stem for file in files]
    for name in names:
        if names.count(name) > 1:
            raise click.UsageError(
                f"two recordings are called {name}; transcribe each with its own --output"
            )
    return names


def check_target(path: Path, option: str, *, recordings: Sequence[str], is_forced: bool) -> None:
    """Raise UsageError if *path*, which was given to *option*, must not be written."""
    if not path.parent.is_dir():
        raise click.UsageError(f"{option} {path}: there is no directory {path.parent}")
    for recording in recordings:
        if path.exists() and Path(recording).exists() and path.samefile(recording):
            raise click.UsageError(f"{option} {path} would overwrite the recording {recording}")
    # A second run of the same command must not destroy subtitles that somebody has corrected.  An
    # empty file, as created by mktemp, may be replaced.
    if not is_forced and path.is_file() and path.stat().st_size:
        raise click.UsageError(
            f"{option} {path}: it exists; replace it with --force, or choose another path"
        )
