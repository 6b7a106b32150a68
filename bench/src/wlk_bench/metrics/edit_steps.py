"""The alignment of two sequences with the fewest edits, fast for long sequences too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rapidfuzz.distance import Levenshtein, Postfix, Prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rapidfuzz.distance import Opcodes

__all__ = ["distance", "edit_steps"]

_HALVED_BYTES = 1 << 20  # rapidfuzz 3: with a larger matrix, it halves the problem first


def distance(reference: Sequence[str], hypothesis: Sequence[str]) -> int:
    """Return the fewest words, or characters of a text, to be replaced, removed or added."""
    # A hint that is too low is doubled until it fits, so texts with few errors are fast.
    return Levenshtein.distance(reference, hypothesis, score_hint=1)


def edit_steps(reference: Sequence[str], hypothesis: Sequence[str]) -> Opcodes:
    """
    Return the alignment of words, or of the characters of two texts, that rapidfuzz gives.

    With the distance as a hint, rapidfuzz searches around the diagonal only, which takes a fraction
    of the time.  Among several best alignments the hint can select another one, because it decides
    whether the problem is halved first.  The hint is therefore used only where it changes nothing.
    """
    errors = distance(reference, hypothesis)
    # rapidfuzz removes the common prefix and suffix before it builds the matrix.
    ends = Prefix.similarity(reference, hypothesis) + Postfix.similarity(reference, hypothesis)
    matrix_bytes = (2 * errors + 1) * (len(hypothesis) - ends) // 4  # 2 bits a cell of the band
    if matrix_bytes < _HALVED_BYTES or 2 * errors + 1 > len(reference) - ends:
        return Levenshtein.opcodes(reference, hypothesis)
    return Levenshtein.opcodes(reference, hypothesis, score_hint=errors)
