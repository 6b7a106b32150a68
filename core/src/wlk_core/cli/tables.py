"""Plain tables and paragraphs that fit a terminal, or 80 columns where there is none."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["megabytes", "paragraph", "table"]

_WIDEST = 100  # columns after which a line is hard to read


def table(rows: Iterable[Sequence[str]]) -> str:
    """
    Return rows as aligned columns, those that are empty left out.

    The last column is wrapped below itself.
    """
    columns = [column for column in zip(*rows, strict=True) if any(column)]
    rows = list(zip(*columns, strict=True))
    widths = [max(map(len, column)) for column in columns[:-1]]
    lines = []
    for row in rows:
        head = "".join(f"{cell:<{width}}  " for cell, width in zip(row, widths, strict=False))
        lines.append(_hanging(head, row[-1]))
    return "\n".join(lines)


def paragraph(label: str, text: str, *, indent: int = 2, width: int = 14) -> str:
    """Return ``label  text`` with the text wrapped in a column of its own."""
    return _hanging(f"{' ' * indent}{label:<{width}}", text)


def megabytes(size: int | None) -> str:
    """Return a size for people, nothing for None."""
    return "" if size is None else f"{size / 1e6:.1f} MB"


def _hanging(head: str, text: str) -> str:
    columns = min(shutil.get_terminal_size().columns, _WIDEST)
    room = max(20, columns - len(head))
    wrapped = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
    return f"\n{' ' * len(head)}".join([head + wrapped[0], *wrapped[1:]]).rstrip()
