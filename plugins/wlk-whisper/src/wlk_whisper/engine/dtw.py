"""Dynamic time warping: the cheapest monotonic path through a cost matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["dtw", "first_columns"]

_DIAGONAL, _DOWN, _RIGHT = 0, 1, 2


def dtw(cost: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """
    Return the rows and columns of the cheapest path through float64[rows, columns].

    The path leads from the first corner to the last, one row, one column or both at a time.  Ties
    are broken as in openai/whisper: backwards, first by the previous column, then by the previous
    row.  Each anti-diagonal is computed at once, because none of its cells depends on another, so
    there are rows + columns numpy calls instead of rows x columns.

    Raises:
        ValueError: the matrix is empty.

    """
    rows, columns = cost.shape
    if rows == 0 or columns == 0:
        raise ValueError(f"expected a matrix with rows and columns, got {cost.shape}")
    moves = np.full((rows, columns), _RIGHT, dtype=np.int8)
    # Total costs of the two previous anti-diagonals, by row.  They are shifted by one, so that the
    # row before the first exists and is infinitely far.
    second_last = np.full(rows + 1, np.inf)
    last = np.full(rows + 1, np.inf)
    second_last[0] = 0.0  # the corner outside the matrix, from which the path starts
    for diagonal in range(rows + columns - 1):
        low = max(0, diagonal - columns + 1)
        high = min(rows, diagonal + 1)
        row = np.arange(low, high)
        across, down, right = second_last[low:high], last[low:high], last[low + 1 : high + 1]
        is_across = (across < down) & (across < right)
        is_down = ~is_across & (down < across) & (down < right)
        total = np.where(is_across, across, np.where(is_down, down, right))
        moves[row, diagonal - row] = np.where(
            is_across, _DIAGONAL, np.where(is_down, _DOWN, _RIGHT)
        )
        second_last = last
        last = np.full(rows + 1, np.inf)
        last[low + 1 : high + 1] = total + cost[row, diagonal - row]
    return _trace(moves)


def _trace(moves: NDArray[np.int8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    row, column = moves.shape[0] - 1, moves.shape[1] - 1
    path = [(row, column)]
    while row > 0 or column > 0:
        move = _DOWN if column == 0 else _RIGHT if row == 0 else int(moves[row, column])
        row -= move != _RIGHT
        column -= move != _DOWN
        path.append((row, column))
    forwards = np.array(path[::-1], dtype=np.int64)
    return forwards[:, 0], forwards[:, 1]


def first_columns(rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first column of every row of a path."""
    is_first = np.concatenate(([True], np.diff(rows) > 0))
    first: NDArray[np.int64] = columns[is_first]
    return first
