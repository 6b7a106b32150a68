"""Tables on a terminal, and as wide as they are where the output is a file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["print_table"]

_FILE_WIDTH = 160


def print_table(table: RenderableType) -> None:
    """Print a table, or anything that rich renders."""
    from rich.console import Console  # noqa: PLC0415 -- only a terminal needs it

    is_terminal = sys.stdout.isatty()
    Console(width=None if is_terminal else _FILE_WIDTH).print(table)
