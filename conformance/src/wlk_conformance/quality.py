"""How far what was heard is from what was said."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["align", "word_errors"]


def word_errors(said: Sequence[str], heard: Sequence[str]) -> int:
    """Return the least number of substitutions, insertions and deletions between the two."""
    return _distances(said, heard)[-1][-1]


def align(said: Sequence[str], heard: Sequence[str]) -> list[tuple[int, int]]:
    """Return the places of the words that are equal in a best alignment of the two."""
    distances = _distances(said, heard)
    pairs: list[tuple[int, int]] = []
    i, j = len(said), len(heard)
    while i and j:
        if said[i - 1] == heard[j - 1] and distances[i][j] == distances[i - 1][j - 1]:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif distances[i][j] == distances[i - 1][j - 1] + 1:
            i, j = i - 1, j - 1
        elif distances[i][j] == distances[i - 1][j] + 1:
            i -= 1
        else:
            j -= 1
    return pairs[::-1]


def _distances(said: Sequence[str], heard: Sequence[str]) -> list[list[int]]:
    """Return the edit distances of all beginnings (Levenshtein 1965)."""
    table = [list(range(len(heard) + 1))]
    for i, one in enumerate(said, 1):
        row = [i]
        for j, other in enumerate(heard, 1):
            changed = table[i - 1][j - 1] + (one != other)
            row.append(min(changed, table[i - 1][j] + 1, row[j - 1] + 1))
        table.append(row)
    return table
