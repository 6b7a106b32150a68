"""The option --output of commands that write one file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


class _NewFile(click.Path):
    """A file that is written after the work: a folder that takes none is an error before it."""

    def convert(self, value: Any, *context: Any) -> Path:
        path = Path(super().convert(value, *context))  # type: ignore[arg-type]  # no bytes
        folder = path.parent
        if not (path.exists() or (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK))):
            self.fail(f"cannot write into the directory {folder}", *context)
        return path


def output_option(**attributes: Any) -> Callable[[F], F]:
    """Return the option --output of a file."""
    return click.option("--output", type=_NewFile(dir_okay=False, writable=True), **attributes)
