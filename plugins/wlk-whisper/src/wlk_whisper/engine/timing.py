"""Token times from the cross attention of the alignment heads, by dynamic time warping."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wlk_whisper.engine.network import ALONE, ChoiceTooClose

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wlk_whisper.engine.network import Rounding

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
    rounding: Rounding = ALONE,
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
        rounding: of the attention.

    Returns:
        int64[rows - first_row - unused_rows].

    Raises:
        ChoiceTooClose: rounding of the attention may have decided a boundary.

    """
    total = cross_attention.sum(axis=-1, keepdims=True)
    shares = cross_attention / np.maximum(total, np.finfo(np.float32).tiny)
    weights = shares.astype(np.float64)
    normal, deviation = _normalised(weights)
    text = slice(first_row, normal.shape[1] - unused_rows)
    cost = -median_filter(normal[:, text]).mean(axis=0)
    rows, columns = dtw(cost)
    if rounding.attention:
        peak = weights.max(axis=1, keepdims=True)
        # Doubled, because the weights were divided by their sum, which is rounded too.
        error = _score_errors(normal[:, text], peak / deviation, 2 * rounding.attention)
        _require_only_path(cost, error, rows, columns)
    return first_columns(rows, columns)


def _normalised(weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the weights in standard deviations from their frame's mean, and the deviations."""
    deviation = np.maximum(weights.std(axis=1, keepdims=True), MIN_DEVIATION)
    return (weights - weights.mean(axis=1, keepdims=True)) / deviation, deviation


def _score_errors(
    normal: NDArray[np.float64], peak: NDArray[np.float64], share: float
) -> NDArray[np.float64]:
    """
    Return the largest rounding error of the mean over the heads of filtered, normalised weights.

    To first order, a weight and the mean and deviation of its frame are each off by *share* of the
    frame's largest weight, *peak*.  A median is off by no more than the largest error in its
    window.  *normal* and *peak* are float64[heads, ..., frames], in deviations.
    """
    errors = share * peak * (2 + np.abs(normal))
    half = MEDIAN_FILTER_WIDTH // 2
    edges = [(0, 0)] * (errors.ndim - 1) + [(half, half)]
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(errors, edges), MEDIAN_FILTER_WIDTH, axis=-1
    )
    mean: NDArray[np.float64] = windows.max(axis=-1).mean(axis=0)
    return mean


def _require_only_path(
    cost: NDArray[np.float64],
    error: NDArray[np.float64],
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
) -> None:
    """
    Check that this path is the cheapest whatever the costs are within their errors.

    In the worst case its own cells cost more, and all other cells less.
    """
    worst = cost - error
    worst[rows, columns] = (cost + error)[rows, columns]
    other_rows, other_columns = dtw(worst)
    if not (np.array_equal(rows, other_rows) and np.array_equal(columns, other_columns)):
        raise ChoiceTooClose("a word may begin in another encoder frame")
