"""Options that several commands share: finite numbers, and --output for a single file."""

from __future__ import annotations

from functools import partial
import math
import os
from pathlib import Path
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """A range of numbers without infinity and without NaN, which click's bounds let through."""

    def convert(self, value: Any, *context: Any) -> float:
        """Return the number that *value* spells."""
        number = float(super().convert(value, *context))
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number", *context)
        return number


def _check_folder(_context: Any, _option: Any, file: Path | None) -> Path | None:
    """Refuse a file in a missing or read-only folder at once, not after the work is done."""
    if file is not None and not file.exists():
        folder = file.parent
        if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
            raise click.BadParameter(f"cannot write into the directory {folder}")
    return file


#: The option --output for a file; takes the other arguments of click.option.
output_option = partial(
    click.option,
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    callback=_check_folder,
)
