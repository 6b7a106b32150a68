"""
Minimum word error segmentation: cut a stream of words where the errors are fewest.

Matusov et al. 2005 (https://aclanthology.org/2005.iwslt-1.19/), with the tie-breaking of mweralign
1.4.1, with which the development tests compare.
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
    """Return the range of the *words* that belong to each segment of reference words."""
    if not segments:
        return []
    if not words:
        return [range(0)] * len(segments)
    starts = _segment_starts(segments, words)
    ends = [*starts[1:], len(words)]
    return [range(start, end) for start, end in zip(starts, ends, strict=True)]


def _segment_starts(segments: Sequence[Sequence[str]], words: Sequence[str]) -> list[int]:
    """
    Return the hypothesis word at which each segment begins.

    The path of the fewest errors is followed from its end.  On ties a deletion is preferred to an
    insertion, and that to a substitution.
    """
    grid = _Grid(segments, words)
    starts = [0] * len(segments)
    hyp, ref = len(words), grid.length
    for segment in range(len(segments) - 1, 0, -1):
        border = grid.borders[segment]
        while hyp and ref > border:
            if grid.is_deleted(hyp, ref):
                ref -= 1
            elif grid.is_inserted(hyp, ref):
                hyp -= 1
            else:
                hyp, ref = hyp - 1, ref - 1
        starts[segment] = hyp
    return starts


class _Grid:
    """
    The edit distances of all prefixes of the hypothesis against those of the reference.

    Only the steps between neighbours are stored, a bit each.  A whole row of them is one integer,
    and the next row is computed from it in a dozen operations (Hyyrö 2003, "A bit-vector algorithm
    for computing Levenshtein and Damerau edit distances").  Bit `ref - 1` belongs to the prefix of
    `ref` reference words.  Of each row only the part that a best path can pass is stored.
    """

    def __init__(self, segments: Sequence[Sequence[str]], words: Sequence[str]) -> None:
        ids: dict[str, int] = {}
        reference = [ids.setdefault(word.lower(), len(ids)) for part in segments for word in part]
        hypothesis = [ids.setdefault(word.lower(), len(ids)) for word in words]
        self.length = len(reference)
        self.borders = [0, *accumulate(map(len, segments))][
            :-1
        ]  #: reference words before each segment
        # The best path has this many errors (2 more where the first row costs more, see
        # _first_row), so it stays within this distance of the diagonal.
        errors = Levenshtein.distance(reference, hypothesis, score_hint=1) + 2
        self._lag = (errors + len(hypothesis) - len(reference)) // 2 + 1
        band = (1 << (errors + 3)) - 1
        self._deletions, self._insertions = [0], [0]
        for number, (rises, adds) in enumerate(self._rows(reference, hypothesis), 1):
            low = self._low(number)
            self._deletions.append((rises >> low) & band)
            self._insertions.append((adds >> low) & band)

    def is_deleted(self, hyp: int, ref: int) -> bool:
        """Return whether a best path to these prefixes ends with a deletion."""
        return bool(self._deletions[hyp] >> (ref - 1 - self._low(hyp)) & 1)

    def is_inserted(self, hyp: int, ref: int) -> bool:
        """Return whether a best path to these prefixes ends with an insertion."""
        return bool(self._insertions[hyp] >> (ref - 1 - self._low(hyp)) & 1)

    def _low(self, hyp: int) -> int:
        """Return the first bit of a row that is stored."""
        return max(0, hyp - self._lag - 1)

    def _rows(
        self, reference: Sequence[int], hypothesis: Sequence[int]
    ) -> Iterator[tuple[int, int]]:
        """Yield where the row of each hypothesis word rises, and where it is above the last row."""
        positions = _positions(reference)
        everywhere = (1 << self.length) - 1
        beyond = everywhere + everywhere + 1  # with the bit that doubling moves out
        rises, falls = self._first_row(np.asarray(reference), hypothesis[0])
        # The first row has no row before it, so no step to it is an insertion.
        yield rises, 0
        for word in hypothesis[1:]:
            same = positions.get(word, 0)
            unchanged = (((same & rises) + rises) ^ rises | same | falls) & everywhere
            adds = falls | (everywhere ^ (unchanged | rises))
            drops = unchanged & rises
            above = adds + adds | 1  # each hypothesis word adds one to the cost of the empty prefix
            # Adding and exclusive or are several times faster than a shift and ~ on long integers.
            rises = (drops + drops | (beyond ^ (unchanged | above))) & everywhere
            falls = above & unchanged
            yield rises, adds

    def _first_row(self, reference: NDArray[np.int64], word: int) -> tuple[int, int]:
        """
        Return where the row of the first hypothesis word rises, and where it falls.

        In mweralign, words deleted from the very beginning also pay for the marks between their
        segments; marks cost nothing anywhere else.
        """
        numbers = np.arange(self.length)
        marks = np.searchsorted(self.borders, numbers, side="right") - 1
        paired = numbers + marks + (reference != word)
        costs = np.concatenate([[1], paired])
        # Each further deletion costs one more, so the minimum so far is taken along a slope of 1.
        offsets = np.arange(self.length + 1)
        steps = np.diff(np.minimum.accumulate(costs - offsets) + offsets)
        return _bits(steps > 0), _bits(steps < 0)


def _positions(reference: Sequence[int]) -> dict[int, int]:
    """Return the positions of each word in the reference, one bit a position."""
    positions: dict[int, int] = {}
    for position, word in enumerate(reference):
        positions[word] = positions.get(word, 0) | 1 << position
    return positions


def _bits(values: NDArray[np.bool_]) -> int:
    return int.from_bytes(np.packbits(values, bitorder="little").tobytes(), "little")
