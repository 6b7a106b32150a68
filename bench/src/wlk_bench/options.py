"""The option --output of commands that write one file."""

from __future__ import annotations

from functools import partial
import os
from pathlib import Path

import click


def _in_a_folder(
    _context: click.Context, _option: click.Parameter, file: Path | None
) -> Path | None:
    """Refuse a folder that takes no file before the work, and not after it."""
    if file is not None and not file.exists():
        folder = file.parent
        if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
            raise click.BadParameter(f"cannot write into the directory {folder}")
    return file


#: The option --output of a file; takes the attributes of an option.
output_option = partial(
    click.option,
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    callback=_in_a_folder,
)
