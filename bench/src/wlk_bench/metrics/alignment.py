"""Align hypothesis words with reference words by minimum edit distance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from rapidfuzz.distance import Levenshtein

from wlk_bench.metrics.normalise import match_key

if TYPE_CHECKING:
    from collections.abc import Sequence


@attrs.frozen
class WordAlignment:
    """
    Pairs of a reference index and a hypothesis index, in order.

    `equal` pairs words that agree, `substituted` a word with the one that replaces it.  Words in
    neither are deleted or inserted.
    """

    equal: tuple[tuple[int, int], ...]
    substituted: tuple[tuple[int, int], ...]


def align_words(reference: Sequence[str], hypothesis: Sequence[str]) -> WordAlignment:
    """
    Align two sequences of words, ignoring letter case and punctuation.

    Words that consist of punctuation are left out on both sides.
    """
    ref = [(index, key) for index, word in enumerate(reference) if (key := match_key(word))]
    hyp = [(index, key) for index, word in enumerate(hypothesis) if (key := match_key(word))]
    steps = Levenshtein.opcodes([key for _, key in ref], [key for _, key in hyp])
    pairs: dict[str, list[tuple[int, int]]] = {"equal": [], "replace": []}
    for step in steps:
        if step.tag in pairs:
            pairs[step.tag] += [
                (ref[i][0], hyp[j][0])
                for i, j in zip(
                    range(step.src_start, step.src_end),
                    range(step.dest_start, step.dest_end),
                    strict=True,
                )
            ]
    return WordAlignment(tuple(pairs["equal"]), tuple(pairs["replace"]))
