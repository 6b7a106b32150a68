"""Options of several commands: numbers, and --output of those that write one file."""

from __future__ import annotations

from functools import partial
import math
import os
from pathlib import Path
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """A range of numbers without infinity and NaN, which lies on neither side of a bound."""

    def convert(self, value: Any, *context: Any) -> float:
        """Return the number that *value* spells."""
        number = float(super().convert(value, *context))
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number", *context)
        return number


def _in_a_folder(_context: Any, _option: Any, file: Path | None) -> Path | None:
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
