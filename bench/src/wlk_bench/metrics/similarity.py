"""Similarity of two words by the characters in which they are written."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Similarity"]

_PUNCTUATION = frozenset(".!?,;:-()。！？，；：—（）ー")  # noqa: RUF001 -- the full-width ones are meant


class Similarity:
    """
    Jaccard similarity of the character sets of reference and hypothesis words, from 0 to 1.

    The similarity of a word and a punctuation mark is minus infinity.
    """

    def __init__(self, reference: Sequence[str], hypothesis: Sequence[str]) -> None:
        spellings = sorted({*reference, *hypothesis})
        numbers = {word: number for number, word in enumerate(spellings)}
        self._reference = np.array([numbers[word] for word in reference])
        self._hypothesis = np.array([numbers[word] for word in hypothesis])
        # For each spelling its letters, as a set and as numbers padded with an unused number.
        self._sets = [frozenset(word) for word in spellings]
        self._sizes = np.array([len(own) for own in self._sets])
        self._is_mark = np.array([word in _PUNCTUATION for word in spellings])
        alphabet = {letter: row for row, letter in enumerate(sorted(set().union(*self._sets)))}
        self._filler = len(alphabet)
        self._letters = np.full((len(spellings), max(self._sizes)), self._filler)
        for filled, own in zip(self._letters, self._sets, strict=True):
            filled[: len(own)] = [alphabet[letter] for letter in own]

    def of(self, ref: int, hyp: int) -> float:
        """Return the similarity of the words with these indices."""
        a, b = self._reference[ref], self._hypothesis[hyp]
        if self._is_mark[a] != self._is_mark[b]:
            return -math.inf
        return len(self._sets[a] & self._sets[b]) / len(self._sets[a] | self._sets[b])

    def block(self, ref: range, hyp: range) -> NDArray[np.float64]:
        """Return the similarities of a range of reference words to a range of hypothesis words."""
        a, b = self._reference[ref.start : ref.stop], self._hypothesis[hyp.start : hyp.stop]
        has = np.zeros((self._filler + 1, len(b)), dtype=np.uint16)  # letter by hypothesis word
        has[self._letters[b].T, np.arange(len(b))] = 1
        has[self._filler] = 0
        sizes = self._sizes[a]
        # A sum instead of a product of matrices, because that would start and wait for threads.
        shared = has[self._letters[a, : sizes.max()]].sum(axis=1, dtype=np.uint16)
        similarity: NDArray[np.float64] = shared / (sizes[:, np.newaxis] + self._sizes[b] - shared)
        if self._is_mark.any():
            is_mark, is_hyp_mark = self._is_mark[a], self._is_mark[b]
            similarity[is_mark[:, np.newaxis] != is_hyp_mark] = -math.inf
        return similarity
