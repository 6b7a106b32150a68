"""Dynamic time warping against the recurrence it implements."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
import numpy as np
import pytest

from wlk_whisper.engine.dtw import dtw, first_columns

costs = arrays.arrays(
    np.float64,
    st.tuples(st.integers(1, 12), st.integers(1, 14)),
    elements=st.integers(-6, 6).map(float),  # few values, so that paths have equal costs
)


def recurrence(cost):
    """Return the path of the recurrence, cell by cell."""
    rows, columns = cost.shape
    total = np.full((rows + 1, columns + 1), np.inf)
    total[0, 0] = 0.0
    moves = np.zeros((rows + 1, columns + 1), dtype=int)
    moves[0, :], moves[:, 0] = 2, 1
    for column in range(1, columns + 1):
        for row in range(1, rows + 1):
            totals = total[row - 1, column - 1], total[row - 1, column], total[row, column - 1]
            if totals[0] < totals[1] and totals[0] < totals[2]:
                move = 0
            elif totals[1] < totals[0] and totals[1] < totals[2]:
                move = 1
            else:
                move = 2
            total[row, column] = cost[row - 1, column - 1] + totals[move]
            moves[row, column] = move
    row, column, path = rows, columns, []
    while row > 0 or column > 0:
        path.append((row - 1, column - 1))
        move = moves[row, column]
        row, column = row - (move != 2), column - (move != 1)
    return np.array(path[::-1]).T


@given(costs)
@settings(max_examples=200)
def test_warping_by_diagonals_takes_the_path_of_the_recurrence(cost):
    """Every cell of the path is the same, also where paths have equal costs."""
    np.testing.assert_array_equal(recurrence(cost), dtw(cost))


@given(costs)
def test_a_path_visits_every_row_and_never_goes_back(cost):
    """Each row has a first column, and these are in order."""
    rows, columns = dtw(cost)
    first = first_columns(rows, columns)

    assert (0, 0) == (rows[0], columns[0])
    assert cost.shape == (rows[-1] + 1, columns[-1] + 1)
    assert len(first) == cost.shape[0]
    assert (np.diff(first) >= 0).all()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_an_empty_matrix_has_no_path(shape):
    """An empty matrix is a ValueError."""
    with pytest.raises(ValueError, match="expected a matrix"):
        dtw(np.zeros(shape))
