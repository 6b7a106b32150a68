"""
Minimum word error segmentation: cut a stream of words where the errors are fewest.

Matusov et al. 2005 (https://aclanthology.org/2005.iwslt-1.19/), with the ties of mweralign 1.4.1,
with which the development tests compare.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
from rapidfuzz.distance import Levenshtein

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["mwer_segments"]


def mwer_segments(segments: Sequence[Sequence[str]], words: Sequence[str]) -> list[range]:
    """Return, for each segment of reference words, the range of the *words* that fall to it."""
    if not segments:
        return []
    if not words:
        return [range(0)] * len(segments)
    starts = _segment_starts(segments, words)
    ends = [*starts[1:], len(words)]
    return [range(start, end) for start, end in zip(starts, ends, strict=True)]


def _segment_starts(segments: Sequence[Sequence[str]], words: Sequence[str]) -> list[int]:
    """
    Return the heard word at which each segment begins.

    The path of the fewest errors is walked from its end.  On ties a missed word comes before an
    added one, and that before a replaced one.
    """
    grid = _Grid(segments, words)
    starts = [0] * len(segments)
    heard, said = len(words), grid.length
    for segment in range(len(segments) - 1, 0, -1):
        border = grid.borders[segment]
        while heard and said > border:
            if grid.is_missed(heard, said):
                said -= 1
            elif grid.is_added(heard, said):
                heard -= 1
            else:
                heard, said = heard - 1, said - 1
        starts[segment] = heard
    return starts


class _Grid:
    """
    The edit distances of all beginnings of the heard words against those of the reference.

    Only the steps between neighbours are kept, a bit each: a whole row of them is one integer,
    and the next row comes from it in a dozen operations (Hyyrö 2003, "A bit-vector algorithm for
    computing Levenshtein and Damerau edit distances").  Bit `said - 1` belongs to the cell behind
    that many reference words.  Of each row, the part is kept that a best path can pass.
    """

    def __init__(self, segments: Sequence[Sequence[str]], words: Sequence[str]) -> None:
        ids: dict[str, int] = {}
        reference = [ids.setdefault(word.lower(), len(ids)) for part in segments for word in part]
        heard = [ids.setdefault(word.lower(), len(ids)) for word in words]
        self.length = len(reference)
        self.borders = [0, *accumulate(map(len, segments))][:-1]  #: said words before each segment
        # The best path has this many errors (2 more where the first row costs more, see
        # _first_row); one that is further behind needs more gaps than that.
        errors = Levenshtein.distance(reference, heard, score_hint=1) + 2
        self._behind = (errors + len(heard) - len(reference)) // 2 + 1
        band = (1 << (errors + 3)) - 1
        self._missed, self._added = [0], [0]
        for number, (rises, adds) in enumerate(self._rows(reference, heard), 1):
            low = self._low(number)
            self._missed.append((rises >> low) & band)
            self._added.append((adds >> low) & band)

    def is_missed(self, heard: int, said: int) -> bool:
        """Say whether a best path to this cell comes from the one before the reference word."""
        return bool(self._missed[heard] >> (said - 1 - self._low(heard)) & 1)

    def is_added(self, heard: int, said: int) -> bool:
        """Say whether a best path to this cell comes from the one before the heard word."""
        return bool(self._added[heard] >> (said - 1 - self._low(heard)) & 1)

    def _low(self, heard: int) -> int:
        """Return the first bit that is kept of a row."""
        return max(0, heard - self._behind - 1)

    def _rows(self, reference: Sequence[int], heard: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield, for every heard word, where a row rises and where it is above the one before."""
        places = _places(reference)
        everywhere = (1 << self.length) - 1
        beyond = everywhere + everywhere + 1  # with the bit that doubling moves out
        rises, falls = self._first_row(np.asarray(reference), heard[0])
        # A path that reaches the first row has no word before it, whatever it does there.
        yield rises, 0
        for word in heard[1:]:
            same = places.get(word, 0)
            kept = (((same & rises) + rises) ^ rises | same | falls) & everywhere
            adds = falls | (everywhere ^ (kept | rises))
            drops = kept & rises
            above = adds + adds | 1  # the empty beginning costs one more with each heard word
            # Adding and exclusive or take a fraction of what a shift and ~ take on long integers.
            rises = (drops + drops | (beyond ^ (kept | above))) & everywhere
            falls = above & kept
            yield rises, adds

    def _first_row(self, reference: NDArray[np.int64], word: int) -> tuple[int, int]:
        """
        Return where the row behind the first heard word rises, and where it falls.

        mweralign lets a reference that is missed from the very beginning pay for the marks
        between its segments, too; a mark costs nothing anywhere else.
        """
        numbers = np.arange(self.length)
        marks = np.searchsorted(self.borders, numbers, side="right") - 1
        paired = numbers + marks + (reference != word)
        costs = np.concatenate([[1], paired])
        # Missing one more word costs one more: the least of what came before, that much on.
        offsets = np.arange(self.length + 1)
        steps = np.diff(np.minimum.accumulate(costs - offsets) + offsets)
        return _bits(steps > 0), _bits(steps < 0)


def _places(reference: Sequence[int]) -> dict[int, int]:
    """Return where each word is in the reference, a bit for each place."""
    places: dict[int, int] = {}
    for place, word in enumerate(reference):
        places[word] = places.get(word, 0) | 1 << place
    return places


def _bits(values: NDArray[np.bool_]) -> int:
    return int.from_bytes(np.packbits(values, bitorder="little").tobytes(), "little")
