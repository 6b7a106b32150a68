"""Word errors between a reference and a hypothesis, and the alignment of the two."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["align", "word_errors"]


def word_errors(reference: Sequence[str], hypothesis: Sequence[str]) -> int:
    """Return the least number of substitutions, insertions and deletions between the two."""
    return round(_distances(reference, hypothesis, [1.0] * len(reference))[-1][-1])


def align(
    reference: Sequence[str], hypothesis: Sequence[str], *, omissions: Sequence[float] = ()
) -> list[tuple[int, int]]:
    """
    Return the index pairs of the words that are equal in a best alignment of the two.

    *omissions* has for each word of *reference* what it costs to leave it out, 1 by default.
    """
    omissions = omissions or [1.0] * len(reference)
    distances = _distances(reference, hypothesis, omissions)
    pairs: list[tuple[int, int]] = []
    i, j = len(reference), len(hypothesis)
    while i and j:
        is_equal = reference[i - 1] == hypothesis[j - 1]
        if is_equal and distances[i][j] == distances[i - 1][j - 1]:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif distances[i][j] == distances[i - 1][j - 1] + 1:
            i, j = i - 1, j - 1
        elif distances[i][j] == distances[i - 1][j] + omissions[i - 1]:
            i -= 1
        else:
            j -= 1
    return pairs[::-1]


def _distances(
    reference: Sequence[str], hypothesis: Sequence[str], omissions: Sequence[float]
) -> list[list[float]]:
    """Return the edit distances of all prefixes (Levenshtein 1965)."""
    table: list[list[float]] = [[float(j) for j in range(len(hypothesis) + 1)]]
    for i, (expected, omission) in enumerate(zip(reference, omissions, strict=True), 1):
        row = [table[i - 1][0] + omission]
        for j, actual in enumerate(hypothesis, 1):
            substitution = table[i - 1][j - 1] + (expected != actual)
            row.append(min(substitution, table[i - 1][j] + omission, row[j - 1] + 1))
        table.append(row)
    return table
