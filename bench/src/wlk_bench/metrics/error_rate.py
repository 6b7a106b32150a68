"""Word and character errors: counts that add up to a corpus, never a mean of means."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import attrs
import jiwer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jiwer import AlignmentChunk, CharacterOutput, WordOutput

__all__ = ["Edits", "ErrorCounts", "character_edits", "word_edits"]

BLOCK_WORDS = 50  # reference words of a bootstrap block: a few utterances of LibriSpeech
BLOCK_CHARACTERS = 250  # about as long


@attrs.frozen(kw_only=True)
class ErrorCounts:
    """Edits between a hypothesis and a reference; counts of several samples add up with `+`."""

    hits: int = 0
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0

    @property
    def errors(self) -> int:
        """All edits."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def reference_length(self) -> int:
        """Words or characters of the reference."""
        return self.hits + self.substitutions + self.deletions

    @property
    def hypothesis_length(self) -> int:
        """Words or characters of the hypothesis."""
        return self.hits + self.substitutions + self.insertions

    @property
    def rate(self) -> float | None:
        """Errors per word of the reference, as a fraction; None where the reference is empty."""
        return self.errors / self.reference_length if self.reference_length else None

    def __add__(self, other: ErrorCounts) -> ErrorCounts:
        """Return the counts of both."""
        return ErrorCounts(
            hits=self.hits + other.hits,
            substitutions=self.substitutions + other.substitutions,
            deletions=self.deletions + other.deletions,
            insertions=self.insertions + other.insertions,
        )

    @classmethod
    def total(cls, counts: Iterable[ErrorCounts]) -> ErrorCounts:
        """Return the counts of all."""
        return sum(counts, cls())


@attrs.frozen(kw_only=True)
class Edits:
    """
    The edits between two texts, in all and by blocks of the reference.

    A block is (errors, reference length).  Blocks depend on the reference alone, so that two
    systems have the same ones.  What was inserted between two reference words counts to the block
    of the word before it.
    """

    counts: ErrorCounts
    blocks: tuple[tuple[int, int], ...]


def word_edits(reference: str, hypothesis: str, *, block: int = BLOCK_WORDS) -> Edits:
    """Compare the words of two texts that are normalised already."""
    output = jiwer.process_words(reference, hypothesis)
    return _edits(output, len(reference.split()), block)


def character_edits(reference: str, hypothesis: str, *, block: int = BLOCK_CHARACTERS) -> Edits:
    """Compare characters; white space is no character."""
    said, heard = "".join(reference.split()), "".join(hypothesis.split())
    return _edits(jiwer.process_characters(said, heard), len(said), block)


def _edits(output: WordOutput | CharacterOutput, length: int, block: int) -> Edits:
    counts = ErrorCounts(
        hits=output.hits,
        substitutions=output.substitutions,
        deletions=output.deletions,
        insertions=output.insertions,
    )
    count = max(1, round(length / block))
    edges = [length * index // count for index in range(count + 1)]
    errors = [0] * count
    for chunk in output.alignments[0]:
        for position, weight in _positions(chunk):
            place = min(max(position, 0), max(length - 1, 0))
            errors[min(bisect_right(edges, place), count) - 1] += weight
    return Edits(
        counts=counts, blocks=tuple((errors[i], edges[i + 1] - edges[i]) for i in range(count))
    )


def _positions(chunk: AlignmentChunk) -> list[tuple[int, int]]:
    """Return where in the reference the errors of an alignment chunk are, and how many."""
    if chunk.type == "equal":
        return []
    if chunk.type == "insert":
        return [(chunk.ref_start_idx - 1, chunk.hyp_end_idx - chunk.hyp_start_idx)]
    return [(position, 1) for position in range(chunk.ref_start_idx, chunk.ref_end_idx)]
