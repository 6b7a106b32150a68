"""
Align two texts so that the similarities of their paired words have the largest sum.

This is the alignment of https://arxiv.org/abs/2509.17349, in which gaps cost nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs
import numpy as np
from rapidfuzz.distance import Levenshtein

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wlk_bench.metrics.similarity import Similarity

__all__ = ["Pair", "soft_alignment"]

Pair = tuple[int | None, int | None]
"""The indices of a reference word and of a hypothesis word; None for a gap."""

BLOCK_WORDS = 64  # reference words aligned at a time; more need wider arrays
_ROUNDING = 1e-6  # above the rounding error of a sum, below the smallest similarity


def soft_alignment(
    reference: Sequence[str], hypothesis: Sequence[str], similarity: Similarity
) -> list[Pair]:
    """
    Return the best alignment of the words that *similarity* compares.

    On ties, from the end on, a pair is preferred to a deletion, and that to an insertion.
    """
    known = _known_score(reference, hypothesis, similarity)
    blocks = _filled(len(reference), len(hypothesis), similarity, known)
    pairs: list[Pair] = []
    i, j = len(reference), len(hypothesis)
    while i > 0 and j > 0:
        block = blocks[(i - 1) // BLOCK_WORDS]
        if block.is_pair(i, j):
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif block.is_deleted(i, j):
            i -= 1
            pairs.append((i, None))
        else:
            j -= 1
            pairs.append((None, j))
    pairs += [(word, None) for word in reversed(range(i))]
    pairs += [(None, word) for word in reversed(range(j))]
    return pairs[::-1]


@attrs.frozen
class _Block:
    """
    The last step of the best alignment of each pair of prefixes, for a block of the table.

    Rows count the reference words of a prefix, columns the hypothesis words.  Bits are packed,
    because the table of a long stream is large.
    """

    row: int
    column: int
    pairs: NDArray[np.uint8]
    deletions: NDArray[np.uint8]

    def is_pair(self, ref: int, hyp: int) -> bool:
        """Return whether the alignment ends with a pair."""
        return self._is_set(self.pairs, ref, hyp)

    def is_deleted(self, ref: int, hyp: int) -> bool:
        """Return whether the alignment may end with a deleted reference word."""
        return self._is_set(self.deletions, ref, hyp)

    def _is_set(self, bits: NDArray[np.uint8], ref: int, hyp: int) -> bool:
        byte, bit = divmod(hyp - self.column, 8)
        return bool(bits[ref - self.row, byte] & 128 >> bit)


def _filled(n: int, m: int, similarity: Similarity, known: float) -> list[_Block]:
    """
    Return the last steps of alignments of n and m words, where a best alignment can pass.

    One alignment with the score *known* exists, and a pair adds at most 1.  Prefixes from which the
    remaining words cannot reach that score are left out.
    """
    known -= _ROUNDING
    blocks: list[_Block] = []
    low, best = 0, np.zeros(m + 1)  # the last row from column `low` on; it never decreases
    for row in range(0, n, BLOCK_WORDS):
        rows = min(BLOCK_WORDS, n - row)
        passed = int(np.searchsorted(best, known - (n - row)))
        low, best = low + passed, best[passed:]
        # The most hypothesis words that can be paired or inserted in these rows.
        high = min(m, int(best[-1] + m - known) + rows)
        scores = np.full((rows + 1, high - low + 1), -math.inf)
        scores[0, : len(best)] = best[: high - low + 1]
        scores[:, 0] = best[0]  # the columns before the first one are left out
        similar = similarity.block(range(row, row + rows), range(low, high))
        for above, pair, here in zip(scores, similar, scores[1:], strict=False):
            ends = here[1:]
            np.add(above[:-1], pair, out=ends)
            np.maximum(ends, above[1:], out=ends)
            np.maximum.accumulate(here, out=here)
        is_pair = np.zeros((rows, high - low + 1), dtype=np.bool_)
        np.equal(scores[:-1, :-1] + similar, scores[1:, 1:], out=is_pair[:, 1:])
        is_deleted = scores[:-1] == scores[1:]
        blocks.append(
            _Block(row + 1, low, np.packbits(is_pair, axis=1), np.packbits(is_deleted, axis=1))
        )
        best = scores[-1]
    return blocks


def _known_score(
    reference: Sequence[str], hypothesis: Sequence[str], similarity: Similarity
) -> float:
    """Return the score of one alignment, a lower bound of the best score."""
    score = 0.0
    for step in Levenshtein.opcodes(reference, hypothesis, score_hint=1):
        if step.tag == "equal":
            score += step.src_end - step.src_start
        elif step.tag == "replace":
            ref, hyp = (
                range(step.src_start, step.src_end),
                range(step.dest_start, step.dest_end),
            )
            found = (similarity.of(i, j) for i, j in zip(ref, hyp, strict=True))
            score += sum(value for value in found if math.isfinite(value))
    return score
