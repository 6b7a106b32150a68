"""How much two words resemble each other: by the characters they are written with."""

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
    Jaccard similarity of the character sets of reference and heard words, from 0 to 1.

    A word and a punctuation mark are never alike: minus infinity.
    """

    def __init__(self, reference: Sequence[str], heard: Sequence[str]) -> None:
        spellings = sorted({*reference, *heard})
        numbers = {word: number for number, word in enumerate(spellings)}
        self._said = np.array([numbers[word] for word in reference])
        self._heard = np.array([numbers[word] for word in heard])
        # By spelling: its letters, as a set and as numbers, filled up with one that none has.
        self._sets = [frozenset(word) for word in spellings]
        self._sizes = np.array([len(own) for own in self._sets])
        self._is_mark = np.array([word in _PUNCTUATION for word in spellings])
        alphabet = {letter: row for row, letter in enumerate(sorted(set().union(*self._sets)))}
        self._filler = len(alphabet)
        self._letters = np.full((len(spellings), max(self._sizes)), self._filler)
        for filled, own in zip(self._letters, self._sets, strict=True):
            filled[: len(own)] = [alphabet[letter] for letter in own]

    def of(self, said: int, heard: int) -> float:
        """Return the similarity of two words, by their places."""
        ours, theirs = self._said[said], self._heard[heard]
        if self._is_mark[ours] != self._is_mark[theirs]:
            return -math.inf
        return len(self._sets[ours] & self._sets[theirs]) / len(
            self._sets[ours] | self._sets[theirs]
        )

    def block(self, said: range, heard: range) -> NDArray[np.float64]:
        """Return the similarities of a stretch of reference words to a stretch of heard ones."""
        ours, theirs = self._said[said.start : said.stop], self._heard[heard.start : heard.stop]
        has = np.zeros((self._filler + 1, len(theirs)), dtype=np.uint16)  # letter by heard word
        has[self._letters[theirs].T, np.arange(len(theirs))] = 1
        has[self._filler] = 0
        sizes = self._sizes[ours]
        # A sum, not a product of matrices: for that, threads are started and waited for.
        shared = has[self._letters[ours, : sizes.max()]].sum(axis=1, dtype=np.uint16)
        similarity: NDArray[np.float64] = shared / (
            sizes[:, np.newaxis] + self._sizes[theirs] - shared
        )
        if self._is_mark.any():
            is_mark, is_heard_mark = self._is_mark[ours], self._is_mark[theirs]
            similarity[is_mark[:, np.newaxis] != is_heard_mark] = -math.inf
        return similarity
