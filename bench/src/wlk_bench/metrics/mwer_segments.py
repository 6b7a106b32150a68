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
    if len(segments) == 1:
        return [range(len(words))]
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
        self._is_mark = self._columns < 0
        # Reference words up to each column.
        self._words_before = np.cumsum(~self._is_mark, dtype=np.int32)
        self._entry = np.where(self._is_mark, _FAR, -self._words_before).astype(np.int32)
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
            if position:
                skipped, origins = history[position - 1]
                position = int(origins[segment - skipped])
            starts[segment] = position
        return starts

    def _fill(self) -> list[tuple[int, NDArray[np.int32]]]:
        """
        Return, for every heard word, where segments that end with it would begin.

        Only segments in the band are told of: how many are skipped, and the origins of the others.
        """
        # Column i lies at i + 1, so that every column has a left neighbour: the first one is far.
        self._cost = np.arange(-1, len(self._columns), dtype=np.int32)
        self._cost[0] = _FAR
        self._cost[self._behind[0] + 1 :] = _FAR
        self._origin = np.zeros(len(self._cost), dtype=np.int32)
        history: list[tuple[int, NDArray[np.int32]]] = []
        lows = np.searchsorted(self._marks, self._first).tolist()
        highs = np.searchsorted(self._marks, self._behind).tolist()
        for position, word in enumerate(self._heard, 1):
            self._advance(position, word)
            low, high = lows[position], highs[position]
            left_of_marks = self._marks[low:high]  # as column i lies at i + 1
            history.append((low, self._origin[left_of_marks]))
        return history

    def _advance(self, position: int, word: int) -> None:
        """Go on by one heard word, in the columns that a best path can pass."""
        first, behind = self._first[position], self._behind[position]
        columns, here = slice(first, behind), slice(first + 1, behind + 1)
        left = columns  # as column i lies at i + 1
        is_mark = self._is_mark[columns]
        cost, origin = self._cost[here], self._origin[here]
        replaced = self._cost[left] + (self._columns[columns] != word)
        added = cost + 1
        new = np.minimum(replaced, added)
        new += self._entry[columns]
        if first == 0:
            new[0] = position
        np.minimum.accumulate(new, out=new)
        new += self._words_before[columns]
        # Ties go as mweralign has them: missing a word, then adding one, then replacing.
        missed = new[:-1] + 1
        beats_missed = replaced[1:] < missed
        is_own = beats_missed | (added[1:] < missed) | is_mark[1:]
        is_replaced = replaced < added
        is_replaced[1:] &= beats_missed
        own = np.where(is_replaced, self._origin[left], origin)
        np.copyto(own, position, where=is_mark)
        if first == 0:
            own[0] = 0
        nearest = np.zeros(len(new), dtype=np.intp)
        np.multiply(is_own, self._numbers[1 : len(new)], out=nearest[1:])
        np.maximum.accumulate(nearest, out=nearest)
        self._cost[here], self._origin[here] = new, own[nearest]
        self._cost[first] = _FAR  # left behind for good
