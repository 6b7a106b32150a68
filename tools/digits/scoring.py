"""Scores of a recogniser on streams whose words and times are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import Factory, define, frozen
import numpy as np
from rapidfuzz.distance import Levenshtein
from vocabulary import DIGITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixing import Word

__all__ = ["RecognisedWord", "Score", "align"]


@frozen(kw_only=True)
class RecognisedWord:
    """A word as it was recognised."""

    text: str
    start: float
    end: float


@define
class Score:
    """Counts of a test, and signed errors of times in seconds; first words are kept apart."""

    words: int = 0
    errors: int = 0
    starts: list[float] = Factory(list)
    first_starts: list[float] = Factory(list)
    ends: list[float] = Factory(list)

    def add(self, words: Sequence[Word], hypothesis: Sequence[RecognisedWord]) -> None:
        """Count a stream."""
        pairs, errors = align(
            [DIGITS[word.digit] for word in words], [word.text for word in hypothesis]
        )
        self.words += len(words)
        self.errors += errors
        for index, other in pairs:
            start = hypothesis[other].start - words[index].start
            (self.starts if index else self.first_starts).append(start)
            self.ends.append(hypothesis[other].end - words[index].end)

    @property
    def error_rate(self) -> float:
        """Substitutions, insertions and deletions in percent of the words spoken."""
        return 100 * self.errors / max(self.words, 1)

    def summary(self) -> dict[str, float]:
        """Return the figures that reports show: percent, and milliseconds."""
        return {
            "words": self.words,
            "wer": round(self.error_rate, 2),
            **_milliseconds("start", self.starts),
            **_milliseconds("first_start", self.first_starts),
            **_milliseconds("end", self.ends),
        }


def _milliseconds(name: str, errors: Sequence[float]) -> dict[str, float]:
    if not errors:
        return {}
    signed = 1000 * np.asarray(errors)
    return {
        f"{name}_median": round(float(np.median(np.abs(signed)))),
        f"{name}_p90": round(float(np.percentile(np.abs(signed), 90))),
        f"{name}_bias": round(float(np.median(signed))),
    }


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> tuple[list[tuple[int, int]], int]:
    """Return which words were recognised, as pairs of indices, and the number of errors."""
    steps = Levenshtein.opcodes(reference, hypothesis)
    pairs = [
        pair
        for step in steps
        if step.tag == "equal"
        for pair in zip(
            range(step.src_start, step.src_end), range(step.dest_start, step.dest_end), strict=True
        )
    ]
    return pairs, Levenshtein.distance(reference, hypothesis)
