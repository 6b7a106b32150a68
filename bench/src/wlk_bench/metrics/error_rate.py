"""Word and character errors as counts that add up to a corpus, never as means of means."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING

import attrs
import jiwer

from wlk_bench.metrics.edit_steps import distance, edit_steps

if TYPE_CHECKING:
    from collections.abc import Iterable

    #: Kind of edit, start and stop in the reference, start and stop in the hypothesis.
    #: jiwer's "substitute" is rapidfuzz's "replace".
    _Step = tuple[str, int, int, int, int]

__all__ = ["Distance", "Edits", "ErrorCounts", "character_edits", "distances", "word_edits"]

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
    systems have the same blocks.  Insertions belong to the block of the reference word before
    them.
    """

    counts: ErrorCounts
    blocks: tuple[tuple[int, int], ...]


@attrs.frozen(kw_only=True)
class Distance:
    """The fewest edits between a hypothesis and a reference, without their kinds."""

    errors: int = 0
    reference_length: int = 0

    @property
    def rate(self) -> float | None:
        """Errors per word of the reference, as a fraction; None where the reference is empty."""
        return self.errors / self.reference_length if self.reference_length else None

    @classmethod
    def total(cls, distances: Iterable[Distance]) -> Distance:
        """Return the distance of all."""
        known = list(distances)
        return cls(
            errors=sum(part.errors for part in known),
            reference_length=sum(part.reference_length for part in known),
        )


def distances(reference: str, hypothesis: str) -> tuple[Distance, Distance]:
    """Compare two texts as they are, by words and by characters."""
    ref_words, hyp_words = reference.split(), hypothesis.split()
    by_word, by_character = (
        Distance(errors=distance(ref, hyp), reference_length=len(ref))
        for ref, hyp in ((ref_words, hyp_words), ("".join(ref_words), "".join(hyp_words)))
    )
    return by_word, by_character


def word_edits(reference: str, hypothesis: str, *, block: int = BLOCK_WORDS) -> Edits:
    """Compare the words of two texts that are normalised already."""
    chunks = jiwer.process_words(reference, hypothesis).alignments[0]
    steps = (
        (edit.type, edit.ref_start_idx, edit.ref_end_idx, edit.hyp_start_idx, edit.hyp_end_idx)
        for edit in chunks
    )
    return _edits(steps, len(reference.split()), block)


def character_edits(reference: str, hypothesis: str, *, block: int = BLOCK_CHARACTERS) -> Edits:
    """Compare characters as jiwer does, but faster; white space does not count."""
    ref, hyp = "".join(reference.split()), "".join(hypothesis.split())
    steps = (
        (edit.tag, edit.src_start, edit.src_end, edit.dest_start, edit.dest_end)
        for edit in edit_steps(ref, hyp)
    )
    return _edits(steps, len(ref), block)


def _edits(steps: Iterable[_Step], length: int, block: int) -> Edits:
    count = max(1, round(length / block))
    edges = [length * index // count for index in range(count + 1)]
    errors = [0] * count
    totals = Counter[str]()
    for step in steps:
        kind, start, end, hyp_start, hyp_end = step
        totals[kind] += max(end - start, hyp_end - hyp_start)
        for position, weight in _positions(step):
            index = min(max(position, 0), max(length - 1, 0))
            errors[min(bisect_right(edges, index), count) - 1] += weight
    counts = ErrorCounts(
        hits=totals["equal"],
        substitutions=totals["substitute"] + totals["replace"],
        deletions=totals["delete"],
        insertions=totals["insert"],
    )
    return Edits(
        counts=counts, blocks=tuple((errors[i], edges[i + 1] - edges[i]) for i in range(count))
    )


def _positions(step: _Step) -> list[tuple[int, int]]:
    """Return the positions in the reference of the errors of a step, each with its count."""
    kind, start, end, hyp_start, hyp_end = step
    if kind == "equal":
        return []
    if kind == "insert":
        return [(start - 1, hyp_end - hyp_start)]
    return [(position, 1) for position in range(start, end)]
