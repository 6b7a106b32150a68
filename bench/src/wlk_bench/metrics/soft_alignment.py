"""
The alignment of two texts whose paired words resemble each other most.

That of https://arxiv.org/abs/2509.17349: the sum of the similarities of pairs is made as large as
possible, gaps cost nothing.
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
"""The places of a reference word and of a heard one; None for a gap."""

BLOCK_WORDS = 64  # reference words aligned at a time: more need wider arrays, fewer more of them
_ROUNDING = 1e-6  # more than a sum of similarities is off by, less than one is worth


def soft_alignment(
    reference: Sequence[str], heard: Sequence[str], similarity: Similarity
) -> list[Pair]:
    """
    Return the best alignment of the words that *similarity* compares.

    On ties a pair comes before a missed word, and that before an added one, from the end on.
    """
    known = _known_score(reference, heard, similarity)
    blocks = _filled(len(reference), len(heard), similarity, known)
    pairs: list[Pair] = []
    i, j = len(reference), len(heard)
    while i > 0 and j > 0:
        block = blocks[(i - 1) // BLOCK_WORDS]
        if block.is_pair(i, j):
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif block.is_missed(i, j):
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
    How the best alignment of each beginning ends, for a stretch of rows and one of columns.

    Rows count the reference words of a beginning, columns the heard ones.  Bits are packed, as a
    long stream has many cells.
    """

    row: int
    column: int
    pairs: NDArray[np.uint8]
    misses: NDArray[np.uint8]

    def is_pair(self, said: int, heard: int) -> bool:
        """Say whether it ends with a pair."""
        return self._is_set(self.pairs, said, heard)

    def is_missed(self, said: int, heard: int) -> bool:
        """Say whether it may end with a missed word."""
        return self._is_set(self.misses, said, heard)

    def _is_set(self, bits: NDArray[np.uint8], said: int, heard: int) -> bool:
        byte, bit = divmod(heard - self.column, 8)
        return bool(bits[said - self.row, byte] & 128 >> bit)


def _filled(n: int, m: int, similarity: Similarity, known: float) -> list[_Block]:
    """
    Return how alignments of n and m words end, in all cells that a best one can pass.

    An alignment of the score *known* is at hand, and no pair adds more than 1.  Left out are the
    cells from where the words that remain cannot lead to that score any more.
    """
    known -= _ROUNDING
    blocks: list[_Block] = []
    low, best = 0, np.zeros(m + 1)  # the last row from column `low` on; it never falls
    for row in range(0, n, BLOCK_WORDS):
        rows = min(BLOCK_WORDS, n - row)
        passed = int(np.searchsorted(best, known - (n - row)))
        low, best = low + passed, best[passed:]
        # So many heard words can be paired or added in these rows.
        high = min(m, int(best[-1] + m - known) + rows)
        scores = np.full((rows + 1, high - low + 1), -math.inf)
        scores[0, : len(best)] = best[: high - low + 1]
        scores[:, 0] = best[0]  # what was in front of the first column is left out
        similar = similarity.block(range(row, row + rows), range(low, high))
        for above, pair, here in zip(scores, similar, scores[1:], strict=False):
            ends = here[1:]
            np.add(above[:-1], pair, out=ends)
            np.maximum(ends, above[1:], out=ends)
            np.maximum.accumulate(here, out=here)
        is_pair = np.zeros((rows, high - low + 1), dtype=np.bool_)
        np.equal(scores[:-1, :-1] + similar, scores[1:, 1:], out=is_pair[:, 1:])
        is_missed = scores[:-1] == scores[1:]
        blocks.append(
            _Block(row + 1, low, np.packbits(is_pair, axis=1), np.packbits(is_missed, axis=1))
        )
        best = scores[-1]
    return blocks


def _known_score(reference: Sequence[str], heard: Sequence[str], similarity: Similarity) -> float:
    """Return the score of one alignment, which the best cannot be below."""
    score = 0.0
    for step in Levenshtein.opcodes(reference, heard, score_hint=1):
        if step.tag == "equal":
            score += step.src_end - step.src_start
        elif step.tag == "replace":
            ours, theirs = (
                range(step.src_start, step.src_end),
                range(step.dest_start, step.dest_end),
            )
            found = (similarity.of(i, j) for i, j in zip(ours, theirs, strict=True))
            score += sum(value for value in found if math.isfinite(value))
    return score
