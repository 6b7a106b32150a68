"""Token times: statistics of the attention, median filter, boundaries and time warping."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
import numpy as np

from wlk_whisper.engine.timing import dtw, median_filter, token_boundaries


def attention(seed, *, heads=3, rows=9, frames=40):
    """Return softmax weights float32[heads, rows, frames], with peaks as in real attention."""
    scores = np.random.default_rng(seed).normal(size=(heads, rows, frames)) * 3
    weights = np.exp(scores)
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


@given(
    arrays.arrays(
        np.float64,
        st.tuples(st.integers(1, 3), st.integers(1, 30)),
        elements=st.integers(-50, 50).map(float),
    )
)
def test_the_median_filter_returns_the_median_of_every_window(values):
    """Windows have seven values, reflected at the ends; shorter rows do not change."""
    if values.shape[-1] <= 3:
        expected = values
    else:
        padded = np.pad(values, ((0, 0), (3, 3)), mode="reflect")
        expected = np.median(np.lib.stride_tricks.sliding_window_view(padded, 7, axis=-1), axis=-1)

    np.testing.assert_array_equal(expected, median_filter(values))


@given(st.integers(0, 1000))
@settings(max_examples=30)
def test_boundaries_are_where_the_attention_moves_on(seed):
    """Tokens that attend to consecutive stretches begin where these begin, whatever their sum."""
    rng = np.random.default_rng(seed)
    starts = np.cumsum([0, *rng.integers(8, 20, size=4)])
    weights = attention(seed, heads=4, rows=3 + 4 + 1, frames=int(starts[-1])) * 0.05
    for token in range(4):
        weights[:, 3 + token, starts[token] : starts[token + 1]] += 1.0
    boundaries = token_boundaries(weights, first_row=3)

    assert len(boundaries) == 4
    np.testing.assert_allclose(starts[:4], boundaries, atol=3)
    np.testing.assert_array_equal(boundaries, token_boundaries(weights / 2, first_row=3))


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
    """Every cell of the path is the same, even where paths have equal costs."""
    np.testing.assert_array_equal(recurrence(cost), dtw(cost))
