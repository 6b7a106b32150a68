"""
Minimum word error segmentation: cut a stream of words where the errors are fewest.

Matusov et al. 2005 (https://aclanthology.org/2005.iwslt-1.19/), with the ties of mweralign 1.4.1,
with which the development tests compare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rapidfuzz.distance import Levenshtein

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["mwer_segments"]

_FAR = 1 << 29  # more errors than words; twice it fits the 32 bits


def mwer_segments(segments: Sequence[Sequence[str]], words: Sequence[str]) -> list[range]:
    """Return, for each segment of reference words, the range of the *words* that fall to it."""
    if not segments:
        return []
    if not words:
        return [range(0)] * len(segments)
    grid = _Grid(segments, words)
    starts = grid.segment_starts()
    ends = [*starts[1:], len(words)]
    return [range(start, end) for start, end in zip(starts, ends, strict=True)]


class _Grid:
    """
    The edit distance of heard words against the reference with a mark behind each segment.

    Column 0 is the beginning; then every reference word and every mark has a column.  A mark
    costs nothing.  `_origin` is where, in heard words, the segment of a cell began.
    """

    def __init__(self, segments: Sequence[Sequence[str]], words: Sequence[str]) -> None:
        ids: dict[str, int] = {}
        columns: list[int] = [-1]
        for segment in segments:
            columns += [ids.setdefault(word.lower(), len(ids)) for word in segment]
            columns.append(-1)
        self._heard = [ids.setdefault(word.lower(), len(ids)) for word in words]
        self._columns = np.array(columns, dtype=np.int32)
        self._marks = np.flatnonzero(self._columns < 0)[1:]
        self._is_word = self._columns >= 0
        # Reference words up to each column.
        self._words_before = np.cumsum(self._is_word, dtype=np.int32)
        self._numbers = np.arange(len(columns))
        reference = [column for column in columns if column >= 0]
        # The best path has this many errors (mweralign gives the first row a cost for marks too,
        # which adds at most 2); one that is further ahead or behind needs more gaps than that.
        errors = Levenshtein.distance(reference, self._heard) + 2
        surplus = len(self._heard) - len(reference)
        behind, ahead = (errors + surplus) // 2 + 1, (errors - surplus) // 2 + 1
        heard = np.arange(len(words) + 1)
        self._first = np.searchsorted(self._words_before, heard - behind, side="left").tolist()
        self._behind = np.searchsorted(self._words_before, heard + ahead, side="right").tolist()

    def segment_starts(self) -> list[int]:
        """Return the heard word at which each segment begins."""
        history = self._fill()
        starts = [0] * len(self._marks)
        position = len(self._heard)
        for segment in reversed(range(len(self._marks))):
            position = int(history[position - 1][segment]) if position else 0
            starts[segment] = position
        return starts

    def _fill(self) -> list[NDArray[np.int32]]:
        """Return, for every heard word, where a segment that ends with it would begin."""
        self._cost = np.arange(len(self._columns), dtype=np.int32)
        self._cost[self._behind[0] :] = _FAR
        self._origin = np.zeros(len(self._columns), dtype=np.int32)
        history: list[NDArray[np.int32]] = []
        for position, word in enumerate(self._heard, 1):
            self._advance(position, word)
            history.append(self._origin[self._marks - 1])
        return history

    def _advance(self, position: int, word: int) -> None:
        """Go on by one heard word, in the columns that a best path can pass."""
        first, behind = self._first[position], self._behind[position]
        place = slice(first, behind)
        is_word, offset = self._is_word[place], self._words_before[place]
        cost, origin = self._cost[place], self._origin[place]
        # What is left of the band is out of reach; the first column has no left neighbour.
        diagonal, from_left = np.full_like(cost, _FAR), np.zeros_like(origin)
        width = behind - max(first, 1)
        diagonal[-width:] = self._cost[behind - 1 - width : behind - 1]
        from_left[-width:] = self._origin[behind - 1 - width : behind - 1]
        replaced = diagonal + (self._columns[place] != word)
        added = cost + 1
        entered = np.minimum(replaced, added)
        entered[~is_word] = _FAR
        if first == 0:
            entered[0] = position
        entered -= offset
        new = np.minimum.accumulate(entered)
        new += offset
        missed = np.full_like(cost, _FAR)
        missed[1:] = new[:-1] + 1
        beats_missed = replaced < missed
        is_replaced = beats_missed & (replaced < added)
        own = np.where(is_replaced, from_left, origin)
        own[~is_word] = position
        if first == 0:
            own[0] = 0
        stays = beats_missed | (added < missed) | ~is_word
        stays[0] = True
        nearest = np.maximum.accumulate(np.where(stays, self._numbers[: len(stays)], 0))
        self._cost[place], self._origin[place] = new, own[nearest]
        if first:
            self._cost[first - 1] = _FAR  # left behind for good
