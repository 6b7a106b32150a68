"""Dynamic time warping: the cheapest way through a matrix that never goes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["first_columns", "warp"]

DIAGONAL, DOWN, RIGHT = 0, 1, 2


def warp(cost: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """
    Return the rows and columns of the cheapest path through float64[rows, columns].

    It begins in the first corner, ends in the last and goes on by one row, one column or both at a
    time; of equally cheap ways it prefers, going back, the column before, then the row before, as
    openai/whisper does.  All cells of an anti-diagonal are computed at once: none of them depends
    on another, so the number of numpy calls is rows + columns, not rows x columns.

    Raises:
        ValueError: the matrix is empty.

    """
    rows, columns = cost.shape
    if rows == 0 or columns == 0:
        raise ValueError(f"expected a matrix with rows and columns, got {cost.shape}")
    moves = np.full((rows, columns), RIGHT, dtype=np.int8)
    # before and last hold the totals of the two anti-diagonals behind the current one, by row,
    # shifted by one so that the row before the first is there and infinitely far.
    before = np.full(rows + 1, np.inf)
    last = np.full(rows + 1, np.inf)
    before[0] = 0.0  # the corner outside the matrix, from which the first cell is reached
    for diagonal in range(rows + columns - 1):
        low = max(0, diagonal - columns + 1)
        high = min(rows, diagonal + 1)
        row = np.arange(low, high)
        across, down, right = before[low:high], last[low:high], last[low + 1 : high + 1]
        is_across = (across < down) & (across < right)
        is_down = ~is_across & (down < across) & (down < right)
        total = np.where(is_across, across, np.where(is_down, down, right))
        moves[row, diagonal - row] = np.where(is_across, DIAGONAL, np.where(is_down, DOWN, RIGHT))
        before = last
        last = np.full(rows + 1, np.inf)
        last[low + 1 : high + 1] = total + cost[row, diagonal - row]
    return _trace(moves)


def _trace(moves: NDArray[np.int8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    row, column = moves.shape[0] - 1, moves.shape[1] - 1
    path = [(row, column)]
    while row > 0 or column > 0:
        move = DOWN if column == 0 else RIGHT if row == 0 else int(moves[row, column])
        row -= move != RIGHT
        column -= move != DOWN
        path.append((row, column))
    backwards = np.array(path[::-1], dtype=np.int64)
    return backwards[:, 0], backwards[:, 1]


def first_columns(rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first column of every row of a path."""
    is_first = np.concatenate(([True], np.diff(rows) > 0))
    return columns[is_first]
