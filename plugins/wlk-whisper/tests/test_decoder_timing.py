"""Alignment: time warping, running normalisation, and words made of tokens."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
import numpy as np
import pytest

from wlk_whisper.decoder.timing import (
    STD_FLOOR,
    AttendedFrames,
    attended_frames,
    boundaries,
    median_filter,
    over_audio,
)
from wlk_whisper.decoder.warping import first_columns, warp

costs = arrays.arrays(
    np.float64,
    st.tuples(st.integers(1, 12), st.integers(1, 14)),
    elements=st.integers(-6, 6).map(float),  # few values, so that ways cost the same
)


def attention(seed, *, heads=3, rows=9, positions=40):
    """Return softmax weights float32[heads, rows, positions], peaky as real ones are."""
    scores = np.random.default_rng(seed).normal(size=(heads, rows, positions)) * 3
    weights = np.exp(scores)
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def walk_by_cells(cost):
    """Return the path of the recurrence, cell by cell."""
    rows, columns = cost.shape
    total = np.full((rows + 1, columns + 1), np.inf)
    total[0, 0] = 0.0
    came = np.zeros((rows + 1, columns + 1), dtype=int)
    came[0, :], came[:, 0] = 2, 1
    for column in range(1, columns + 1):
        for row in range(1, rows + 1):
            ways = total[row - 1, column - 1], total[row - 1, column], total[row, column - 1]
            if ways[0] < ways[1] and ways[0] < ways[2]:
                way = 0
            elif ways[1] < ways[0] and ways[1] < ways[2]:
                way = 1
            else:
                way = 2
            total[row, column] = cost[row - 1, column - 1] + ways[way]
            came[row, column] = way
    row, column, path = rows, columns, []
    while row > 0 or column > 0:
        path.append((row - 1, column - 1))
        way = came[row, column]
        row, column = row - (way != 2), column - (way != 1)
    return np.array(path[::-1]).T


@given(costs)
@settings(max_examples=200)
def test_warping_by_diagonals_takes_the_path_of_the_recurrence(cost):
    """Every cell of the path is the same, also where ways cost the same."""
    np.testing.assert_array_equal(walk_by_cells(cost), warp(cost))


@given(costs)
def test_a_path_visits_every_row_and_never_goes_back(cost):
    """Each row has a first column, and these are in order."""
    rows, columns = warp(cost)
    first = first_columns(rows, columns)

    assert (0, 0) == (rows[0], columns[0])
    assert cost.shape == (rows[-1] + 1, columns[-1] + 1)
    assert len(first) == cost.shape[0]
    assert (np.diff(first) >= 0).all()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_an_empty_matrix_has_no_path(shape):
    """There is nothing to align."""
    with pytest.raises(ValueError, match="expected a matrix"):
        warp(np.zeros(shape))


@given(
    arrays.arrays(
        np.float64,
        st.tuples(st.integers(1, 3), st.integers(1, 30)),
        elements=st.integers(-50, 50).map(float),
    )
)
def test_the_median_filter_is_the_middle_of_every_window(values):
    """Windows of seven, reflected at the ends; what is shorter stays as it is."""
    if values.shape[-1] <= 3:
        expected = values
    else:
        padded = np.pad(values, ((0, 0), (3, 3)), mode="reflect")
        expected = np.median(np.lib.stride_tricks.sliding_window_view(padded, 7, axis=-1), axis=-1)

    np.testing.assert_array_equal(expected, median_filter(values))


def recomputed(weights):
    """Return the averaged, normalised weights of the last row, from all rows at once."""
    weights = weights.astype(np.float64)
    away = weights - weights.mean(axis=1, keepdims=True)
    normal = away / np.maximum(weights.std(axis=1, keepdims=True), STD_FLOOR)
    return median_filter(normal[:, -1]).mean(axis=0)


@given(st.integers(0, 10_000), st.integers(2, 60), st.integers(1, 60))
@settings(max_examples=60)
def test_the_frame_of_a_row_is_that_of_a_full_recomputation(seed, rows, split):
    """Running mean and variance forget nothing, however the rows came in (defect B33)."""
    weights = attention(seed, rows=rows)
    parts = AttendedFrames().after(weights[:, :split])
    if split < rows:
        parts = parts.after(weights[:, split:])
    expected = recomputed(weights)

    assert expected.max() == pytest.approx(expected[parts.newest], abs=1e-9)
    assert rows == parts.count
    assert attended_frames(weights)[-1] == parts.newest


def test_what_no_row_attends_to_is_no_frame():
    """Rounding in positions without attention is not blown up to a peak."""
    weights = np.full((2, 6, 30), 1e-12, dtype=np.float32)
    weights[:, :, 5:9] = 0.2
    weights[:, 5, 20:25] += np.float32(1e-11)
    weights[:, 5, 12:16] = 0.1

    assert 12 <= attended_frames(weights)[-1] < 16


def test_no_rows_have_no_frames():
    """An empty stretch is left as it is."""
    assert 0 == len(attended_frames(np.zeros((2, 0, 10), dtype=np.float32)))


def test_weights_over_the_audio_are_those_without_silence_behind_it():
    """Cutting and sharing out anew equals a softmax over the audio alone."""
    scores = np.random.default_rng(2).normal(size=(2, 3, 20)).astype(np.float32)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    alone = np.exp(scores[..., :12]) / np.exp(scores[..., :12]).sum(-1, keepdims=True)

    np.testing.assert_allclose(alone, over_audio(weights, 12), rtol=1e-5)
    assert np.isfinite(over_audio(np.zeros((1, 1, 4), dtype=np.float32), 2)).all()


@given(st.integers(0, 1000))
@settings(max_examples=30)
def test_boundaries_are_where_the_attention_moves_on(seed):
    """Tokens that look at one stretch after another begin where these do."""
    rng = np.random.default_rng(seed)
    starts = np.cumsum([0, *rng.integers(8, 20, size=4)])
    weights = attention(seed, heads=4, rows=3 + 4 + 1, positions=int(starts[-1])) * 0.05
    for token in range(4):
        weights[:, 3 + token, starts[token] : starts[token + 1]] += 1.0
    found = boundaries(weights, first=3)

    assert 4 == len(found)
    np.testing.assert_allclose(starts[:4], found, atol=3)
