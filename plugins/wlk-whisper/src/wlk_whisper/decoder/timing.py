"""Where in the audio a token was heard, from the attention of the alignment heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_whisper.decoder.warping import first_columns, warp

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "MEDIAN_WIDTH",
    "POSITION_SECONDS",
    "AttendedFrames",
    "attended_frames",
    "boundaries",
    "median_filter",
    "over_audio",
]

POSITION_SECONDS = 0.02  # Whisper encoder stride: 2 x 10 ms
MEDIAN_WIDTH = 7  # positions; openai/whisper, timing.py
# Below this a deviation is the arithmetic's, not the model's: a softmax over 1500 positions gives
# 7e-4 on average.  It keeps positions that no row attends to from being blown up to noise.
STD_FLOOR = 1e-9


def over_audio(attention: NDArray[np.float32], positions: int) -> NDArray[np.float32]:
    """
    Return float32[..., positions]: *attention* as if there were no silence behind the audio.

    The weights of a row over the first *positions* add up to one again, as a softmax over these
    alone would have it.
    """
    kept = attention[..., :positions]
    total = kept.sum(axis=-1, keepdims=True)
    shares: NDArray[np.float32] = kept / np.maximum(total, np.finfo(np.float32).tiny)
    return shares


def median_filter(values: NDArray[np.float64], width: int = MEDIAN_WIDTH) -> NDArray[np.float64]:
    """Return the running median over the last axis, reflected at its ends; *width* is odd."""
    half = width // 2
    if values.shape[-1] <= half:
        return values  # openai/whisper leaves what is shorter than the reflection as it is
    padded = np.concatenate(
        [values[..., half:0:-1], values, values[..., -2 : -half - 2 : -1]], axis=-1
    )
    length = values.shape[-1]
    columns = [padded[..., shift : shift + length] for shift in range(width)]
    return _middle(columns)


def _middle(columns: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """
    Return the elementwise median of an odd number of arrays.

    Half a bubble sort: after n // 2 + 1 rounds the middle one is in its place.  Whole arrays are
    compared at once, which is several times quicker than sorting windows of seven.
    """
    for top in range(len(columns) - 1, len(columns) // 2 - 1, -1):
        for place in range(top):
            low = np.minimum(columns[place], columns[place + 1])
            columns[place + 1] = np.maximum(columns[place], columns[place + 1])
            columns[place] = low
    return columns[len(columns) // 2]


def boundaries(
    attention: NDArray[np.float32],
    *,
    first: int,
    positions: int | None = None,
    chose_nothing: int = 1,
) -> NDArray[np.int64]:
    """
    Return where each token begins, in encoder positions that never go back.

    Weights are normalised over the rows, filtered over 7 positions, averaged over the heads and
    warped in time, as in openai/whisper.  The last boundary is that of the token behind the text:
    the end of the last word.

    Args:
        attention: float32[heads, rows, positions] of all rows of one pass.  Row i chose token
            i + 1.
        first: the row that chose the first token of the text.
        positions: how many encoder positions hold audio; None means all.
        chose_nothing: rows at the end that chose no token: one where the end of text was fed, as
            it is when a known text is aligned, and none when it was only chosen.

    Returns:
        int64[rows - first - chose_nothing].


    """
    heard = attention if positions is None else over_audio(attention, positions)
    weights = heard.astype(np.float64)
    deviation = np.maximum(weights.std(axis=1, keepdims=True), STD_FLOOR)
    normal = (weights - weights.mean(axis=1, keepdims=True)) / deviation
    matrix = median_filter(normal).mean(axis=0)
    rows, columns = warp(-matrix[first : len(matrix) - chose_nothing])
    return first_columns(rows, columns)


@attrs.frozen(eq=False)
class AttendedFrames:
    """
    The encoder position that each row of the decoder attends to most, row by row.

    Attention is normalised over the rows seen so far, by a running mean and variance (Welford), so
    that a row costs heads x positions whatever came before, and its frame is that which all the
    rows up to it give (defect B33).  Immutable: hypotheses of a beam share what they have seen.
    """

    count: int = 0
    newest: int = -1  #: the frame of the last row seen
    _mean: NDArray[np.float64] | None = attrs.field(default=None, alias="mean")
    _squares: NDArray[np.float64] | None = attrs.field(default=None, alias="squares")

    def after(self, attention: NDArray[np.float32]) -> AttendedFrames:
        """Return what is known behind the rows of float32[heads, rows, positions]."""
        return self._walk(attention)[-1]

    def _walk(self, attention: NDArray[np.float32]) -> list[AttendedFrames]:
        weights = attention.astype(np.float64)
        heads, rows, positions = weights.shape
        count = self.count
        mean = np.zeros((heads, positions)) if self._mean is None else self._mean
        squares = np.zeros((heads, positions)) if self._squares is None else self._squares
        walked = []
        for row in range(rows):
            count += 1
            away = weights[:, row] - mean
            mean = mean + away / count
            squares = squares + away * (weights[:, row] - mean)
            deviation = np.maximum(np.sqrt(squares / count), STD_FLOOR)
            normal = median_filter((weights[:, row] - mean) / deviation)
            newest = int(normal.mean(axis=0).argmax())
            walked.append(AttendedFrames(count, newest, mean, squares))
        return walked


def attended_frames(attention: NDArray[np.float32]) -> NDArray[np.int64]:
    """
    Return the position that each row attends to most, int64[rows], each as if it were the last.

    *attention* is float32[heads, rows, positions].  The first row of all has nothing to be compared
    with and gives 0.
    """
    walked = AttendedFrames()._walk(attention)  # noqa: SLF001 -- the same module
    return np.array([seen.newest for seen in walked], dtype=np.int64)
