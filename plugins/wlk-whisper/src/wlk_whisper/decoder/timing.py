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
    text = normal[:, first : normal.shape[1] - chose_nothing]
    rows, columns = warp(-median_filter(text).mean(axis=0))
    return first_columns(rows, columns)


@attrs.frozen(eq=False)
class AttendedFrames:
    """
    The encoder position that each row of the decoder attends to most, row by row.

    Attention is normalised over the rows seen so far, by a running mean and variance (Chan, Golub
    and LeVeque, 1979), so that a row costs heads x positions whatever came before, and its frame is
    that which all the rows up to it give (defect B33).  Immutable: hypotheses of a beam share what
    they have seen.
    """

    count: int = 0
    newest: int = -1  #: the frame of the last row seen
    _mean: NDArray[np.float64] | float = attrs.field(default=0.0, alias="mean")
    _squares: NDArray[np.float64] | float = attrs.field(default=0.0, alias="squares")

    def after(self, attention: NDArray[np.float32]) -> AttendedFrames:
        """Return what is known behind float32[heads, rows, positions], at least one row."""
        weights = attention.astype(np.float64)
        rows = weights.shape[1]
        count = self.count + rows
        mean = weights.mean(axis=1)
        squares = np.square(weights - mean[:, None]).sum(axis=1)
        away = mean - self._mean
        squares = squares + self._squares + np.square(away) * (self.count * rows / count)
        mean = self._mean + away * (rows / count)
        deviation = np.maximum(np.sqrt(squares / count), STD_FLOOR)
        normal = median_filter((weights[:, -1] - mean) / deviation)
        return AttendedFrames(count, int(normal.mean(axis=0).argmax()), mean, squares)


def attended_frames(attention: NDArray[np.float32]) -> NDArray[np.int64]:
    """
    Return the position that each row attends to most, int64[rows], each as if it were the last.

    *attention* is float32[heads, rows, positions].  The first row of all has nothing to be compared
    with and gives 0.
    """
    seen = AttendedFrames()
    frames = []
    for row in range(attention.shape[1]):
        seen = seen.after(attention[:, row : row + 1])
        frames.append(seen.newest)
    return np.array(frames, dtype=np.int64)
