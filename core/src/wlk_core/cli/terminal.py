"""Plain text for people: escaped for a terminal, and aligned in columns."""

from __future__ import annotations

from contextlib import suppress
import os
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

import click

from wlk_core.untrusted import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MAX_COLUMNS = 100  # longer lines are hard to read
_MIN_COLUMNS = 20  # for a wrapped last cell, even if the others fill the line


def echo(text: object = "", *, err: bool = False) -> None:
    """Write lines to standard output or error; terminal control sequences are escaped."""
    click.echo("\n".join(map(printable, str(text).split("\n"))), err=err)


def print_error(message: object, name: str = "wlk-core") -> None:
    """Write one line to standard error."""
    with suppress(OSError):  # there is no other stream to report it on
        echo(f"{name}: {' '.join(str(message).split())}", err=True)


def usage_line(error: click.UsageError) -> str:
    """Return the message of a usage error as one line that ends with the command for help."""
    command = error.ctx.command_path if error.ctx else "wlk-core"
    message = error.format_message()
    return f"{message[:1].lower()}{message[1:]}".rstrip(".") + f" (see: {command} --help)"


def table(rows: Iterable[Sequence[str]]) -> str:
    """Return *rows* as aligned columns, empty ones left out; the last cell wraps in its column."""
    # Only people need short lines; programs read one row per line.
    is_for_people = "COLUMNS" in os.environ or sys.stdout.isatty()
    room = min(shutil.get_terminal_size().columns, _MAX_COLUMNS) if is_for_people else sys.maxsize
    cells = [[printable(cell) for cell in row] for row in rows]
    columns = [column for column in zip(*cells, strict=True) if any(column)]
    widths = [max(map(len, column)) for column in columns[:-1]]
    lines = []
    for row in zip(*columns, strict=True):
        head = "".join(f"{cell:<{width}}  " for cell, width in zip(row, widths, strict=False))
        wrapped = textwrap.fill(
            row[-1],
            max(room, len(head) + _MIN_COLUMNS),
            initial_indent=head,
            subsequent_indent=" " * len(head),
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines.append(wrapped or head.rstrip())
    return "\n".join(lines)


def megabytes(size: int | None) -> str:
    """Return *size* in bytes as megabytes for people, "" for None."""
    return "" if size is None else f"{size / 1e6:.1f} MB"
