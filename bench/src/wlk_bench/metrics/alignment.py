"""Which hypothesis word stands for which reference word: one minimum edit distance alignment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import jiwer

from wlk_bench.metrics.normalise import match_key

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["WordAlignment", "align_words"]


@attrs.frozen
class WordAlignment:
    """
    Index pairs of a reference and a hypothesis, in order.

    `equal` are words that agree, `substituted` words that stand in each other's place.  Indices
    in neither are words that were missed or invented.
    """

    equal: tuple[tuple[int, int], ...]
    substituted: tuple[tuple[int, int], ...]

    @property
    def partners(self) -> dict[int, int]:
        """The hypothesis index of every reference word that has one."""
        return dict(sorted([*self.equal, *self.substituted]))


def align_words(reference: Sequence[str], hypothesis: Sequence[str]) -> WordAlignment:
    """
    Align word for word; letter case, punctuation and diacritics do not count.

    Words that are nothing but punctuation take part on neither side.
    """
    ours = [(index, key) for index, word in enumerate(reference) if (key := match_key(word))]
    theirs = [(index, key) for index, word in enumerate(hypothesis) if (key := match_key(word))]
    chunks = jiwer.process_words(
        " ".join(key for _, key in ours), " ".join(key for _, key in theirs)
    ).alignments[0]
    pairs: dict[str, list[tuple[int, int]]] = {"equal": [], "substitute": []}
    for chunk in chunks:
        if chunk.type in pairs:
            pairs[chunk.type] += [
                (ours[i][0], theirs[j][0])
                for i, j in zip(
                    range(chunk.ref_start_idx, chunk.ref_end_idx),
                    range(chunk.hyp_start_idx, chunk.hyp_end_idx),
                    strict=True,
                )
            ]
    return WordAlignment(tuple(pairs["equal"]), tuple(pairs["substitute"]))
