"""
Minimum word error segmentation: cut a stream of words where the errors are fewest.

Matusov et al. 2005 (https://aclanthology.org/2005.iwslt-1.19/), with the tie-breaking of mweralign
1.4.1, with which the development tests compare.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["mwer_segments"]


def mwer_segments(segments: Sequence[Sequence[str]], words: Sequence[str]) -> list[range]:
    """Return the range of the *words* that belong to each segment of reference words."""
    if not words:
        return [range(0)] * len(segments)
    borders = [0, *accumulate(map(len, segments))]  # reference words before each segment
    ids: dict[str, int] = {}
    reference = [ids.setdefault(word.lower(), len(ids)) for part in segments for word in part]
    hypothesis = [ids.setdefault(word.lower(), len(ids)) for word in words]
    rows = [(0, 0), *_rows(reference, hypothesis, borders[:-1])]
    # The path of the fewest errors is followed from its end.  On ties a deletion is preferred to
    # an insertion, and that to a substitution.
    starts = [0] * len(segments)
    hyp, ref = len(words), len(reference)
    for segment in range(len(segments) - 1, 0, -1):
        while hyp and ref > borders[segment]:
            deletions, insertions = rows[hyp]
            if deletions >> (ref - 1) & 1:
                ref -= 1
            elif insertions >> (ref - 1) & 1:
                hyp -= 1
            else:
                hyp, ref = hyp - 1, ref - 1
        starts[segment] = hyp
    ends = [*starts[1:], len(words)]
    return [range(start, end) for start, end in zip(starts, ends, strict=True)]


def _rows(
    reference: Sequence[int], hypothesis: Sequence[int], borders: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """
    Yield where a best path may delete and where it may insert, for each hypothesis word.

    The table of edit distances of an hour has 80 million cells.  Only the steps between neighbours
    are stored, a bit each: a whole row of them is one integer, and the next row is computed from it
    in a dozen operations (Hyyrö 2003, "A bit-vector algorithm for computing Levenshtein and Damerau
    edit distances").  Bit `ref - 1` belongs to the prefix of `ref` reference words.
    """
    positions: dict[int, int] = {}  # of each word in the reference, one bit a position
    for position, word in enumerate(reference):
        positions[word] = positions.get(word, 0) | 1 << position
    everywhere = (1 << len(reference)) - 1
    beyond = everywhere + everywhere + 1  # with the bit that doubling moves out
    rises, falls = _first_row(np.asarray(reference), hypothesis[0], borders)
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


def _first_row(reference: NDArray[np.int64], word: int, borders: Sequence[int]) -> tuple[int, int]:
    """
    Return where the row of the first hypothesis word rises, and where it falls.

    In mweralign, words deleted from the very beginning also pay for the marks between their
    segments; marks cost nothing anywhere else.
    """
    numbers = np.arange(len(reference))
    marks = np.searchsorted(borders, numbers, side="right") - 1
    costs = np.concatenate([[1], numbers + marks + (reference != word)])
    # Each further deletion costs one more, so the minimum so far is taken along a slope of 1.
    offsets = np.arange(len(costs))
    steps = np.diff(np.minimum.accumulate(costs - offsets) + offsets)
    rises, falls = (
        int.from_bytes(np.packbits(values, bitorder="little").tobytes(), "little")
        for values in (steps > 0, steps < 0)
    )
    return rises, falls
