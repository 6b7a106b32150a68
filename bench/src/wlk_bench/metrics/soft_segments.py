"""
Soft segmentation: give each emitted word to the reference segment it belongs to.

The alignment of https://arxiv.org/abs/2509.17349: the sum of character-set similarities is made
as large as possible, gaps cost nothing.  Ties and words without a partner are resolved as
OmniSTEval 0.1.10 does, with which the development tests compare.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
import unicodedata

import numpy as np
from rapidfuzz.distance import Levenshtein

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["soft_segments"]

_PUNCTUATION = frozenset(".!?,;:-()。！？，；：—（）ー")  # noqa: RUF001 -- the full-width ones are meant


def soft_segments(segments: Sequence[Sequence[str]], words: Sequence[str]) -> list[list[int]]:
    """
    Return, for each segment of reference words, the indices of the *words* that belong to it.

    Punctuation that stands alone in front of all words belongs to none.
    """
    reference = [_folded(word) for segment in segments for word in segment]
    owners = [index for index, segment in enumerate(segments) for _ in segment]
    belongs: list[list[int]] = [[] for _ in segments]
    if not reference or not words:
        return belongs
    heard = [_folded(word) for word in words]
    similarity = _Similarity(reference, heard)
    for word, partner in _placed(_aligned(reference, heard, similarity), similarity):
        belongs[owners[partner]].append(word)
    return belongs


def _folded(word: str) -> str:
    return unicodedata.normalize("NFKC", word).lower()


class _Similarity:
    """Jaccard similarity of the character sets of two words, once per pair of spellings."""

    def __init__(self, reference: Sequence[str], heard: Sequence[str]) -> None:
        spellings = sorted(set(heard))
        self._alphabet = {
            char: i for i, char in enumerate(sorted(set("".join([*reference, *spellings]))))
        }
        self._letters = _letters(spellings, self._alphabet)
        self._sizes = self._letters.sum(1)
        self._is_mark = np.array([word in _PUNCTUATION for word in spellings])
        places = {word: i for i, word in enumerate(spellings)}
        self._columns = np.array([places[word] for word in heard])
        self._reference = reference
        self._rows: dict[str, NDArray[np.float64]] = {}

    def of(self, reference: int, heard: int) -> float:
        """Return the similarity of two words."""
        return float(self._row(reference)[self._columns[heard]])

    def row(self, reference: int, first: int, behind: int) -> NDArray[np.float64]:
        """Return the similarities of a reference word to the heard words of a range."""
        similarities: NDArray[np.float64] = self._row(reference)[self._columns[first:behind]]
        return similarities

    def _row(self, reference: int) -> NDArray[np.float64]:
        word = self._reference[reference]
        if word not in self._rows:
            letters = _letters([word], self._alphabet)[0]
            shared = self._letters @ letters
            row = shared / (self._sizes + letters.sum() - shared)
            row[self._is_mark != (word in _PUNCTUATION)] = -math.inf
            self._rows[word] = row
        return self._rows[word]


def _letters(words: Sequence[str], alphabet: dict[str, int]) -> NDArray[np.float64]:
    letters = np.zeros((len(words), len(alphabet)))
    for index, word in enumerate(words):
        letters[index, [alphabet[char] for char in set(word)]] = 1.0
    return letters


def _aligned(
    reference: Sequence[str], heard: Sequence[str], similarity: _Similarity
) -> list[tuple[int | None, int | None]]:
    """
    Return the best alignment as pairs, None for a gap.

    On ties a pair comes before a missed word, and that before an added one.  Only a band
    around the diagonal is looked at: a path outside it has too few pairs left to be the best.
    """
    n, m = len(reference), len(heard)
    floor = _known_score(reference, heard, similarity)
    low, high = -math.ceil(n - floor) - 1, math.ceil(m - floor) + 1
    width = high - low + 1
    is_pair = np.zeros((n + 1, width), dtype=np.bool_)
    is_missed = np.zeros((n + 1, width), dtype=np.bool_)
    best = np.full(m + 1, -math.inf)
    best[: min(m, high) + 1] = 0.0
    for i in range(1, n + 1):
        first, last = max(1, i + low), min(m, i + high)
        pair = best[first - 1 : last] + similarity.row(i - 1, first - 1, last)
        missed = best[first : last + 1]
        row = np.maximum(pair, missed)
        edge = 0.0 if first == 1 else -math.inf  # column 0, or what the band leaves out
        row[0] = max(row[0], edge)
        np.maximum.accumulate(row, out=row)
        place = slice(first - i - low, last + 1 - i - low)
        np.equal(pair, row, out=is_pair[i, place])
        np.equal(missed, row, out=is_missed[i, place])
        best[first : last + 1] = row
        best[first - 1] = edge
    pairs: list[tuple[int | None, int | None]] = []
    i, j = n, m
    while i > 0 or j > 0:
        column = j - i - low
        if j == 0 or (i > 0 and not is_pair[i, column] and is_missed[i, column]):
            i -= 1
            pairs.append((i, None))
        elif i == 0 or not is_pair[i, column]:
            j -= 1
            pairs.append((None, j))
        else:
            i, j = i - 1, j - 1
            pairs.append((i, j))
    return pairs[::-1]


def _known_score(reference: Sequence[str], heard: Sequence[str], similarity: _Similarity) -> float:
    """Return the score of one alignment, which the best cannot be below."""
    score = 0.0
    for step in Levenshtein.opcodes(reference, heard):
        if step.tag in {"equal", "replace"}:
            ours, theirs = (
                range(step.src_start, step.src_end),
                range(step.dest_start, step.dest_end),
            )
            found = (similarity.of(i, j) for i, j in zip(ours, theirs, strict=True))
            score += sum(value for value in found if math.isfinite(value))
    return score


def _placed(
    pairs: Sequence[tuple[int | None, int | None]], similarity: _Similarity
) -> list[tuple[int, int]]:
    """
    Return (heard word, reference word) for every heard word.

    A word without a partner goes with the reference word behind its gap if it resembles that one
    more than the word before, and so do the words behind it in the gap.
    """
    placed: list[tuple[int, int]] = []
    last: int | None = None
    ahead: int | None = None
    gap_end = 0
    for position, (paired, word) in enumerate(pairs):
        partner = paired
        if word is not None and partner is None and position >= gap_end:
            gap_end, following = _following(pairs, position)
            before = -math.inf if last is None else similarity.of(last, word)
            behind = -math.inf if following is None else similarity.of(following, word)
            if behind > before:
                partner = ahead = following
            else:
                partner, gap_end, ahead = last, position, None
        elif word is not None and partner is None:
            partner = ahead
        if partner is not None and position >= gap_end:
            last = partner
        if word is not None and partner is not None:
            placed.append((word, partner))
    return placed


def _following(
    pairs: Sequence[tuple[int | None, int | None]], position: int
) -> tuple[int, int | None]:
    """Return where the gap at *position* ends, and the reference word there."""
    while position < len(pairs) and pairs[position][0] is None:
        position += 1
    return position, pairs[position][0] if position < len(pairs) else None
