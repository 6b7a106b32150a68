"""
Coded audio: samples that contain the id of their token, so that text and times are known exactly.

A token spans whole cells of 80 ms.  Each of its samples is ``id * 2**14 + offset`` as a fraction of
2**23, where offset counts samples from the start of the token; a float32 holds it exactly.  Any
slice of the audio contains the id, the start and the length of every token in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_core.processor import SAMPLE_RATE
from wlk_core.streaming.words import Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

CELL_SAMPLES = 1280  # one step of a natively streaming model
CELL_SECONDS = CELL_SAMPLES / SAMPLE_RATE  # 0.08
HALF_CELL = CELL_SAMPLES // 2  # a cut token belongs to the side with its first HALF_CELL samples
MAX_CELLS = 12  # a token of 0.96 s fits the 14 bits of its offsets
MAX_ID = 511

_OFFSET_BITS = 14
_SCALE = float(1 << 23)
_STRIDE = 160  # samples from one decoded sample to the next
_MIN_SAMPLES = 2  # decoded samples in a row that make a token: noise can imitate a single one


@attrs.frozen
class CodedToken:
    """Token *id* (1 to 511) from cell *start* on, *cells* cells of 80 ms long."""

    id: int
    start: int
    cells: int = 3


@attrs.frozen
class DetectedToken:
    """A token found in a stretch of audio, in samples from its start; `origin` may be negative."""

    id: int
    origin: int  #: the start of the token
    start: int  #: its first sample in the stretch
    end: int  #: just past its last sample in the stretch


class LoudIsSpeech:
    """A speech detector for coded audio: any sample that is not zero is speech."""

    frame_samples = 512

    def __call__(self, frame: NDArray[np.float32]) -> float:
        """Return 1 for speech, 0 for silence."""
        return float(np.any(frame))

    def reset(self) -> None:
        """Keep no state."""


def encode(tokens: Iterable[CodedToken], *, cells: int | None = None) -> NDArray[np.float32]:
    """
    Return float32[n] audio of *cells* cells (by default up to the last token's end).

    Raises:
        ValueError: an id or length out of range, or tokens that overlap.

    """
    tokens = sorted(tokens, key=lambda token: token.start)
    last = max((token.start + token.cells for token in tokens), default=0)
    audio = np.zeros((last if cells is None else cells) * CELL_SAMPLES, dtype=np.float32)
    floor = 0
    for token in tokens:
        if not 1 <= token.id <= MAX_ID or not 1 <= token.cells <= MAX_CELLS:
            raise ValueError(f"expected ids 1 to {MAX_ID} and 1 to {MAX_CELLS} cells, got {token}")
        if token.start < floor:
            raise ValueError(f"{token} begins before cell {floor}, the end of the one before")
        floor = token.start + token.cells
        codes = (token.id << _OFFSET_BITS) + np.arange(token.cells * CELL_SAMPLES)
        span = slice(token.start * CELL_SAMPLES, floor * CELL_SAMPLES)
        audio[span] = (codes / _SCALE)[: len(audio[span])]
    return audio


def read_tokens(audio: NDArray[np.float32]) -> list[DetectedToken]:
    """Return the tokens of which at least 30 ms lie in *audio*, in order."""
    scaled = audio[::_STRIDE].astype(np.float64) * _SCALE
    codes = np.rint(scaled)
    positions = np.arange(len(codes)) * _STRIDE
    ids = codes.astype(np.int64) >> _OFFSET_BITS
    origins = positions - (codes.astype(np.int64) & ((1 << _OFFSET_BITS) - 1))
    is_code = (codes == scaled) & (ids >= 1) & (ids <= MAX_ID)
    if not is_code.any():
        return []
    changes = np.flatnonzero((np.diff(ids) != 0) | (np.diff(origins) != 0)) + 1
    firsts, run_ends = np.append(0, changes), np.append(changes, len(codes))
    is_token = (run_ends - firsts >= _MIN_SAMPLES) & np.logical_and.reduceat(is_code, firsts)
    ids, origins = ids[firsts[is_token]], origins[firsts[is_token]]
    # The samples after the last decoded one of a token may still belong to it.
    lasts = (run_ends[is_token] - 1) * _STRIDE
    next_ = lasts[:, None] + np.arange(_STRIDE)
    tails = audio[np.minimum(next_, len(audio) - 1)].astype(np.float64) * _SCALE
    expected = (ids << _OFFSET_BITS)[:, None] + next_ - origins[:, None]
    belongs = (next_ < len(audio)) & (tails == expected)
    ends = lasts + np.where(belongs.all(axis=1), _STRIDE, belongs.argmin(axis=1))
    return [
        DetectedToken(token, origin, max(0, origin), end)
        for token, origin, end in zip(ids.tolist(), origins.tolist(), ends.tolist(), strict=True)
    ]


def script_words(tokens: Sequence[CodedToken], vocabulary: Sequence[str]) -> tuple[Word, ...]:
    """Return the true words: token *id* is spelled ``vocabulary[id - 1]``, times in seconds."""
    return tuple(
        Word(
            token.start * CELL_SECONDS,
            (token.start + token.cells) * CELL_SECONDS,
            vocabulary[token.id - 1],
            1.0,
        )
        for token in sorted(tokens, key=lambda token: token.start)
    )
