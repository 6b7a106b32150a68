"""Word and character errors as counts, to be summed over a corpus instead of averaging rates."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

import attrs
import jiwer

if TYPE_CHECKING:
    from collections.abc import Iterable

BLOCK_WORDS = 50  # reference words in a bootstrap block: a few utterances of LibriSpeech
BLOCK_CHARACTERS = 250  # about as much speech


@attrs.frozen(kw_only=True)
class ErrorCounts:
    """Edits between a hypothesis and a reference."""

    hits: int = 0
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0

    @property
    def errors(self) -> int:
        """The number of edits."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def reference_length(self) -> int:
        """The number of words or characters in the reference."""
        return self.hits + self.substitutions + self.deletions

    @property
    def hypothesis_length(self) -> int:
        """The number of words or characters in the hypothesis."""
        return self.hits + self.substitutions + self.insertions

    @property
    def rate(self) -> float | None:
        """Errors per reference word or character, as a fraction; None without a reference."""
        return self.errors / self.reference_length if self.reference_length else None

    @classmethod
    def total(cls, counts: Iterable[ErrorCounts]) -> ErrorCounts:
        """Return the sum of the counts of several samples."""
        every = list(counts)
        names = (field.name for field in attrs.fields(cls))
        return cls(**{name: sum(getattr(each, name) for each in every) for name in names})


@attrs.frozen(kw_only=True)
class Edits:
    """
    The edits between two texts, in total and per block of the reference.

    A block is (errors, reference length).  Blocks depend only on the reference, so two systems
    have the same blocks.  Insertions count in the block of the reference word before them.
    """

    counts: ErrorCounts
    blocks: tuple[tuple[int, int], ...]


def word_edits(reference: str, hypothesis: str, *, block: int = BLOCK_WORDS) -> Edits:
    """Compare the words of two normalised texts."""
    return _edits(jiwer.process_words(reference, hypothesis), block)


def character_edits(reference: str, hypothesis: str, *, block: int = BLOCK_CHARACTERS) -> Edits:
    """Compare the characters of two normalised texts, ignoring white space."""
    ref, hyp = "".join(reference.split()), "".join(hypothesis.split())
    return _edits(jiwer.process_characters(ref, hyp), block)


def _edits(output: jiwer.WordOutput | jiwer.CharacterOutput, block: int) -> Edits:
    counts = ErrorCounts(
        hits=output.hits,
        substitutions=output.substitutions,
        deletions=output.deletions,
        insertions=output.insertions,
    )
    length = counts.reference_length
    number = max(1, round(length / block))
    edges = [length * index // number for index in range(number + 1)]
    errors = [0] * number
    for step in output.alignments[0]:
        if step.type == "equal":
            continue
        if step.type == "insert":
            before = max(0, step.ref_start_idx - 1)
            positions = [before] * (step.hyp_end_idx - step.hyp_start_idx)
        else:
            positions = list(range(step.ref_start_idx, step.ref_end_idx))
        for position in positions:
            errors[min(bisect_right(edges, position), number) - 1] += 1
    lengths = [end - start for start, end in pairwise(edges)]
    return Edits(counts=counts, blocks=tuple(zip(errors, lengths, strict=True)))
