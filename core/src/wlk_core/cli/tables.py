"""Plain tables and paragraphs that fit a terminal, or 80 columns without a terminal."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING

from wlk_core.untrusted import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["lines", "megabytes", "paragraph", "table"]

_WIDEST = 100  # columns after which a line is hard to read
_NARROWEST = 20  # columns that the last cell gets even where the others fill the line
_LEGIBLE = 30  # columns of a summary of which enough can be read
_UNLIMITED = 10_000  # columns of a file or a pipe


def table(rows: Iterable[Sequence[str]]) -> str:
    """
    Return rows as aligned columns, those that are empty left out.

    The last column is wrapped below itself.
    """
    return "\n".join(_hanging(head, last) for head, last in _aligned(rows))


def lines(rows: Sequence[Sequence[str]], *, optional: int) -> str:
    """
    Return rows as aligned columns, a line for each row.

    On a terminal the lines are cut at its edge; the column *optional* is left out where the last
    one would be too short to read.
    """
    columns = shutil.get_terminal_size(fallback=(_UNLIMITED, 24)).columns
    for chosen in (rows, [[*row[:optional], *row[optional + 1 :]] for row in rows]):
        aligned = list(_aligned(chosen))
        if columns - max(len(head) for head, _ in aligned) >= _LEGIBLE:
            break
    return "\n".join(_cut(head + last, columns) for head, last in aligned)


def _aligned(rows: Iterable[Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Yield each row as its first cells, aligned, and its last cell."""
    cells = ([printable(cell) for cell in row] for row in rows)
    columns = [column for column in zip(*cells, strict=True) if any(column)]
    widths = [max(map(len, column)) for column in columns[:-1]]
    for row in zip(*columns, strict=True):
        padded = zip(row, widths, strict=False)
        yield "".join(f"{cell:<{width}}  " for cell, width in padded), row[-1]


def paragraph(label: str, text: str, *, indent: int = 2, width: int = 14) -> str:
    """Return ``label  text`` with the text wrapped in a column of its own."""
    return _hanging(f"{' ' * indent}{label:<{width}}", text)


def megabytes(size: int | None) -> str:
    """Return a size for people, nothing for None."""
    return "" if size is None else f"{size / 1e6:.1f} MB"


def _cut(line: str, columns: int) -> str:
    return (line if len(line) <= columns else f"{line[: columns - 3].rstrip()}...").rstrip()


def _hanging(head: str, text: str) -> str:
    room = max(_NARROWEST, min(shutil.get_terminal_size().columns, _WIDEST) - len(head))
    wrapped = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
    return f"\n{' ' * len(head)}".join([head + wrapped[0], *wrapped[1:]]).rstrip()
