"""
Cut a stream of words into the segments of its reference, as published latency metrics do.

StreamLAAL cuts where the word errors are fewest: Matusov et al. 2005
(https://aclanthology.org/2005.iwslt-1.19/), with the tie-breaking of mweralign 1.4.1.  LongYAAL
aligns the words so that the similarities of the pairs have the largest sum, and gaps cost nothing
(https://arxiv.org/abs/2509.17349); ties and words without a partner are resolved as in OmniSTEval
0.1.10.  The development tests compare with both.
"""

from __future__ import annotations

from itertools import accumulate
import math
from typing import TYPE_CHECKING
import unicodedata

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["mwer_segments", "soft_alignment", "soft_segments"]

_Pair = tuple[int | None, int | None]  # a reference word and a hypothesis word; None for a gap
_PUNCTUATION = frozenset(".!?,;:-()。！？，；：—（）ー")  # noqa: RUF001 -- the full-width ones are meant


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


def soft_segments(segments: Sequence[Sequence[str]], words: Sequence[str]) -> list[list[int]]:
    """
    Return, for each segment of reference words, the indices of the *words* that belong to it.

    A punctuation mark before all words belongs to no segment.
    """
    reference = [_folded(word) for segment in segments for word in segment]
    owners = [index for index, segment in enumerate(segments) for _ in segment]
    hypothesis = [_folded(word) for word in words]
    belongs: list[list[int]] = [[] for _ in segments]
    for word, partner in _assigned(reference, hypothesis):
        belongs[owners[partner]].append(word)
    return belongs


def soft_alignment(reference: Sequence[str], hypothesis: Sequence[str]) -> list[_Pair]:
    """
    Return the best alignment of two texts.

    On ties, from the end on, a pair is preferred to a deletion, and that to an insertion.
    """
    rows = _Similarities(hypothesis)
    best = np.zeros(len(hypothesis) + 1)  # the best score of each prefix of the hypothesis
    # A bit for each cell of the table, because that of an hour has 80 million.
    pairs: list[NDArray[np.uint8]] = []
    deletions: list[NDArray[np.uint8]] = []
    for word in reference:
        paired = best[:-1] + rows.of(word)
        here = best.copy()
        np.maximum(here[1:], paired, out=here[1:])
        np.maximum.accumulate(here, out=here)
        pairs.append(np.packbits(paired == here[1:]))
        deletions.append(np.packbits(best[1:] == here[1:]))
        best = here
    found: list[_Pair] = []
    i, j = len(reference), len(hypothesis)
    while i or j:
        byte, bit = divmod(j - 1, 8)
        if i and j and pairs[i - 1][byte] & 128 >> bit:
            i, j = i - 1, j - 1
            found.append((i, j))
        elif i and (not j or deletions[i - 1][byte] & 128 >> bit):
            i -= 1
            found.append((i, None))
        else:
            j -= 1
            found.append((None, j))
    return found[::-1]


class _Similarities:
    """Jaccard similarities, from 0 to 1, of one word to all words of the hypothesis."""

    def __init__(self, hypothesis: Sequence[str]) -> None:
        spellings, self._indices = np.unique(
            np.array(hypothesis, dtype=object), return_inverse=True
        )
        self._sizes = np.array([len(set(word)) for word in spellings], dtype=np.int64)
        self._is_mark = np.array([word in _PUNCTUATION for word in spellings], dtype=np.bool_)
        self._has = {
            letter: np.array([letter in word for word in spellings], dtype=np.int64)
            for letter in set().union(*spellings)
        }

    def of(self, word: str) -> NDArray[np.float64]:
        """Return the similarity of *word* to each word; see `_similarity`."""
        shared = np.zeros(len(self._sizes), dtype=np.int64)
        for letter in self._has.keys() & set(word):
            shared += self._has[letter]
        similarity: NDArray[np.float64] = shared / (len(set(word)) + self._sizes - shared)
        similarity[self._is_mark != (word in _PUNCTUATION)] = -math.inf
        return similarity[self._indices]


def _similarity(a: str, b: str) -> float:
    """Return the share of letters that two words have in common; marks resemble marks alone."""
    if (a in _PUNCTUATION) != (b in _PUNCTUATION):
        return -math.inf
    return len(set(a) & set(b)) / len(set(a) | set(b))


def _folded(word: str) -> str:
    return unicodedata.normalize("NFKC", word).lower()


def _assigned(reference: Sequence[str], hypothesis: Sequence[str]) -> list[tuple[int, int]]:
    """
    Return (hypothesis word, reference word) for every hypothesis word.

    A word without a partner joins the reference word after its gap if it is more similar to that
    word than to the one before, and so do the words after it in the gap.
    """
    if not reference or not hypothesis:
        return []
    pairs = soft_alignment(reference, hypothesis)
    assigned: list[tuple[int, int]] = []
    last: int | None = None
    ahead: int | None = None
    gap_end = 0
    for position, (paired, word) in enumerate(pairs):
        partner = paired
        if word is not None and partner is None and position >= gap_end:
            gap_end = position
            while gap_end < len(pairs) and pairs[gap_end][0] is None:
                gap_end += 1
            following = pairs[gap_end][0] if gap_end < len(pairs) else None
            before, after = (
                -math.inf if near is None else _similarity(reference[near], hypothesis[word])
                for near in (last, following)
            )
            if after > before:
                partner = ahead = following
            else:
                partner, gap_end, ahead = last, position, None
        elif word is not None and partner is None:
            partner = ahead
        if partner is not None and position >= gap_end:
            last = partner
        if word is not None and partner is not None:
            assigned.append((word, partner))
    return assigned
