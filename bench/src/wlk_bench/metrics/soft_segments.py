"""
Soft segmentation: assign each emitted word to the reference segment it belongs to.

The words are aligned as in https://arxiv.org/abs/2509.17349.  Ties and words without a partner are
resolved as in OmniSTEval 0.1.10, with which the development tests compare.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
import unicodedata

from wlk_bench.metrics.similarity import Similarity
from wlk_bench.metrics.soft_alignment import soft_alignment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_bench.metrics.soft_alignment import Pair

__all__ = ["soft_segments"]


def soft_segments(segments: Sequence[Sequence[str]], words: Sequence[str]) -> list[list[int]]:
    """
    Return, for each segment of reference words, the indices of the *words* that belong to it.

    A punctuation mark before all words belongs to no segment.
    """
    folded = {
        word: _folded(word)
        for word in {*words, *(word for segment in segments for word in segment)}
    }
    reference = [folded[word] for segment in segments for word in segment]
    owners = [index for index, segment in enumerate(segments) for _ in segment]
    belongs: list[list[int]] = [[] for _ in segments]
    if not reference or not words:
        return belongs
    hypothesis = [folded[word] for word in words]
    similarity = Similarity(reference, hypothesis)
    alignment = soft_alignment(reference, hypothesis, similarity)
    for word, partner in _assigned(alignment, similarity):
        belongs[owners[partner]].append(word)
    return belongs


def _folded(word: str) -> str:
    return unicodedata.normalize("NFKC", word).lower()


def _assigned(pairs: Sequence[Pair], similarity: Similarity) -> list[tuple[int, int]]:
    """
    Return (hypothesis word, reference word) for every hypothesis word.

    A word without a partner joins the reference word after its gap if it is more similar to that
    word than to the one before, and so do the words after it in the gap.
    """
    assigned: list[tuple[int, int]] = []
    last: int | None = None
    ahead: int | None = None
    gap_end = 0
    for position, (paired, word) in enumerate(pairs):
        partner = paired
        if word is not None and partner is None and position >= gap_end:
            gap_end, following = _following(pairs, position)
            before = -math.inf if last is None else similarity.of(last, word)
            after = -math.inf if following is None else similarity.of(following, word)
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


def _following(pairs: Sequence[Pair], position: int) -> tuple[int, int | None]:
    """Return the end of the gap at *position*, and the reference word there."""
    while position < len(pairs) and pairs[position][0] is None:
        position += 1
    return position, pairs[position][0] if position < len(pairs) else None
