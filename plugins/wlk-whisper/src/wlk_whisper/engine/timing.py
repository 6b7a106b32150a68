"""Token times from the cross attention of the alignment heads, by dynamic time warping."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ENCODER_FRAME_SECONDS = 0.02  # stride of Whisper's encoder: 2 x 10 ms
MEDIAN_FILTER_WIDTH = 7  # encoder frames; openai/whisper, timing.py
# Smaller standard deviations are rounding: a softmax over 1500 frames has a mean of 7e-4.  The
# floor keeps frames without attention from being scaled up to noise.
MIN_DEVIATION = 1e-9
_DIAGONAL, _DOWN, _RIGHT = 0, 1, 2  # moves of a path


def median_filter(
    values: NDArray[np.float64], width: int = MEDIAN_FILTER_WIDTH
) -> NDArray[np.float64]:
    """Return the running median over the last axis, reflected at its ends; *width* is odd."""
    half = width // 2
    if values.shape[-1] <= half:
        return values  # too short to reflect; openai/whisper leaves such values unfiltered, too
    padded = np.concatenate(
        [values[..., half:0:-1], values, values[..., -2 : -half - 2 : -1]], axis=-1
    )
    length = values.shape[-1]
    columns = [padded[..., shift : shift + length] for shift in range(width)]
    return _elementwise_median(columns)


def _elementwise_median(columns: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """
    Return the elementwise median of an odd number of arrays.

    This is half a bubble sort: after n // 2 + 1 rounds the median is in its final position.
    Comparing whole arrays is several times faster than sorting windows of seven values.
    """
    for top in range(len(columns) - 1, len(columns) // 2 - 1, -1):
        for index in range(top):
            low = np.minimum(columns[index], columns[index + 1])
            columns[index + 1] = np.maximum(columns[index], columns[index + 1])
            columns[index] = low
    return columns[len(columns) // 2]


def dtw(cost: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """
    Return the rows and columns of the cheapest path through float64[rows, columns].

    The path leads from the first corner to the last, one row, one column or both at a time.  On a
    tie a cell is reached from the previous column, as in openai/whisper.  Cells of an anti-diagonal
    do not depend on each other, so each anti-diagonal is computed at once: rows + columns numpy
    calls instead of rows x columns.
    """
    rows, columns = cost.shape
    moves = np.full((rows, columns), _RIGHT, dtype=np.int8)
    # Total costs of the two previous anti-diagonals, at index row + 1.  Index 0 is a row before the
    # first, infinitely far away.
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
        if column == 0:
            move = _DOWN
        elif row == 0:
            move = _RIGHT
        else:
            move = int(moves[row, column])
        if move in (_DOWN, _DIAGONAL):
            row -= 1
        if move in (_RIGHT, _DIAGONAL):
            column -= 1
        path.append((row, column))
    forwards = np.array(path[::-1], dtype=np.int64)
    return forwards[:, 0], forwards[:, 1]


def first_columns(rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first column of every row of a path."""
    is_first = np.concatenate(([True], np.diff(rows) > 0))
    first: NDArray[np.int64] = columns[is_first]
    return first


def token_boundaries(
    cross_attention: NDArray[np.float32],
    *,
    first_row: int,
    unused_rows: int = 1,
) -> NDArray[np.int64]:
    """
    Return where each token begins, in encoder frames that never decrease.

    As in openai/whisper, weights are normalised over the rows, median-filtered, averaged over the
    heads and warped in time.  The last boundary is the end of the last token.

    Args:
        cross_attention: float32[heads, rows, frames] of all rows of one text, without the silence
            after the audio; each row is divided by its sum.  Row i predicted token i + 1.
        first_row: the row that predicted the first token of the text.
        unused_rows: rows at the end that predicted no token: one where the end of text was an
            input, as in the alignment of a known text, none where it was only predicted.

    Returns:
        int64[rows - first_row - unused_rows].

    """
    total = cross_attention.sum(axis=-1, keepdims=True)
    shares = cross_attention / np.maximum(total, np.finfo(np.float32).tiny)
    weights = shares.astype(np.float64)
    deviation = np.maximum(weights.std(axis=1, keepdims=True), MIN_DEVIATION)
    normal = (weights - weights.mean(axis=1, keepdims=True)) / deviation
    text = slice(first_row, normal.shape[1] - unused_rows)
    cost = -median_filter(normal[:, text]).mean(axis=0)
    rows, columns = dtw(cost)
    return first_columns(rows, columns)
