"""
Cut a stream of words into the segments of its reference, as LongYAAL does.

The alignment maximises the sum of the similarities of the paired words, and gaps cost nothing
(https://arxiv.org/abs/2509.17349).  Ties and unpaired words are resolved as in OmniSTEval 0.1.10,
which the development tests compare with.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
import unicodedata

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_Pair = tuple[int | None, int | None]  # reference and hypothesis index; None for a gap
_PUNCTUATION = frozenset(".!?,;:-()。！？，；：—（）ー")  # noqa: RUF001 -- the full-width ones are meant


def soft_segments(segments: Sequence[Sequence[str]], words: Sequence[str]) -> list[list[int]]:
    """
    Return, for each segment of reference words, the indices of the *words* that belong to it.

    A punctuation mark before the first word belongs to no segment.
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
    Return the best alignment of two sequences of words.

    Ties are broken from the end: a pair is preferred to a deletion, and that to an insertion.
    """
    rows = _Similarities(hypothesis)
    best = np.zeros(len(hypothesis) + 1)  # the best score of each prefix of the hypothesis
    # One bit per cell of the table, because the table of an hour of speech has 80 million cells.
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
    alignment: list[_Pair] = []
    i, j = len(reference), len(hypothesis)
    while i or j:
        byte, bit = divmod(j - 1, 8)
        if i and j and pairs[i - 1][byte] & 128 >> bit:
            i, j = i - 1, j - 1
            alignment.append((i, j))
        elif i and (not j or deletions[i - 1][byte] & 128 >> bit):
            i -= 1
            alignment.append((i, None))
        else:
            j -= 1
            alignment.append((None, j))
    return alignment[::-1]


class _Similarities:
    """Jaccard similarities, from 0 to 1, of the letters of one word and of all hypothesis words."""

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
        """Return the similarity of *word* to each word; -inf between a mark and a word."""
        shared = np.zeros(len(self._sizes), dtype=np.int64)
        for letter in self._has.keys() & set(word):
            shared += self._has[letter]
        similarity: NDArray[np.float64] = shared / (len(set(word)) + self._sizes - shared)
        similarity[self._is_mark != (word in _PUNCTUATION)] = -math.inf
        return similarity[self._indices]


def _folded(word: str) -> str:
    return unicodedata.normalize("NFKC", word).lower()


def _assigned(reference: Sequence[str], hypothesis: Sequence[str]) -> list[tuple[int, int]]:
    """
    Return (hypothesis index, reference index) for every word that belongs to a reference word.

    An unpaired word joins the reference word after its gap if it is more similar to that word than
    to the one before the gap; the words after it in the gap then do the same.
    """
    if not reference or not hypothesis:
        return []
    pairs = soft_alignment(reference, hypothesis)
    rows = _Similarities(hypothesis)

    def similarity(partner: int | None, word: int) -> float:
        return -math.inf if partner is None else float(rows.of(reference[partner])[word])

    assigned: list[tuple[int, int]] = []
    previous: int | None = None  # the reference word before this position
    position = 0
    while position < len(pairs):
        partner, word = pairs[position]
        if partner is not None:
            if word is not None:
                assigned.append((word, partner))
            previous = partner
            position += 1
            continue
        gap_end = position
        while gap_end < len(pairs) and pairs[gap_end][0] is None:
            gap_end += 1
        following = pairs[gap_end][0] if gap_end < len(pairs) else None
        gap = [each for _, each in pairs[position:gap_end] if each is not None]
        if following is not None and similarity(following, gap[0]) > similarity(previous, gap[0]):
            assigned += [(each, following) for each in gap]
            position = gap_end
        else:
            if previous is not None:
                assigned.append((gap[0], previous))
            position += 1
    return assigned
