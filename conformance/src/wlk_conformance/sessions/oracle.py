"""The oracle of coded audio: which words a life of a stream must have committed, and when."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import attrs

from wlk_conformance.quality import align
from wlk_conformance.sessions.clock import StreamClock
from wlk_conformance.sessions.violation import Violation
from wlk_core.testing import CELL_SAMPLES, CELL_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wlk_conformance.sessions.tape import Tape
    from wlk_core import ASRToken

__all__ = ["ExpectedWord", "Life", "check_life", "expected_words"]

HALF_CELL = CELL_SAMPLES // 2  # of its first samples decide which side of a cut has a word
ENOUGH = 480  # samples of a word on its side of a cut with which every engine detects it
TOLERANCE = CELL_SECONDS + 1e-3  # seconds, as TIME-05 allows on scripted engines


@attrs.define
class Life:
    """A stream from its opening or reset to the next reset or its end."""

    first_sample: int = 0  #: of the tape
    clock: StreamClock = attrs.field(factory=StreamClock)
    cuts: list[int] = attrs.field(factory=list)  #: samples at which a flush ended an utterance
    tokens: list[ASRToken] = attrs.field(factory=list)
    is_complete: bool = False  #: finished, so that every word was committed


@attrs.frozen
class ExpectedWord:
    """A word, the ranges of its start and end in seconds, and whether it may be missing."""

    text: str
    start: tuple[float, float]
    end: tuple[float, float]
    is_certain: bool


def expected_words(life: Life, tape: Tape, vocabulary: Sequence[str]) -> list[ExpectedWord]:
    """
    Return the words of the tape that lie in *life*.

    A word that a silence or a flush cuts is recognised on the side that has the end of its first
    half cell.  An engine may keep its audio over a flush without silence, so either side of such a
    cut is accepted.
    """
    clock, total = life.clock, life.clock.samples
    pauses = [sample for sample, _ in clock.pauses]
    words = []
    for id_, cell, cells in tape.tokens:
        origin = cell * CELL_SAMPLES - life.first_sample
        stop = min(origin + cells * CELL_SAMPLES, total)
        half = origin + HALF_CELL
        if not 0 < half <= total:
            continue
        hard = _part(origin, stop, half, pauses, total)
        soft = _part(origin, stop, half, [*pauses, *life.cuts], total)
        words.append(
            ExpectedWord(
                text=vocabulary[id_ - 1],
                start=_range(clock.time_of(hard[0]), clock.time_of(soft[0])),
                end=_range(
                    clock.time_of(soft[1], is_before_pause=True),
                    clock.time_of(hard[1], is_before_pause=True),
                ),
                is_certain=soft[1] - soft[0] >= ENOUGH,
            )
        )
    return words


def check_life(life: Life, tape: Tape, vocabulary: Sequence[str]) -> Iterator[Violation]:
    """Compare the tokens of *life* with the words of its audio."""
    expected = expected_words(life, tape, vocabulary)
    tokens = life.tokens
    text = "".join(token.text for token in tokens)
    words = text.split()
    if not life.is_complete:  # its last words may still have been held back
        uncertain = sum(not word.is_certain for word in expected)
        expected = expected[: len(words) + uncertain]
    spelled = [word.text.strip() for word in expected]
    pairs = align(spelled, words)
    found = {index for index, _ in pairs}
    missing = [
        word
        for index, word in enumerate(expected)
        if index not in found and word.is_certain and life.is_complete
    ]
    if (missing or len(pairs) < len(words)) and _is_joined(expected, words):
        yield Violation("COM-03", f"the words are {spelled}, the text is {text!r}", kind="spacing")
    elif missing:
        yield Violation("IN-05", _lost(missing, expected, words), kind="missing")
    elif len(pairs) < len(words):
        matched = {index for _, index in pairs}
        extra = next(index for index in range(len(words)) if index not in matched)
        near = " ".join(words[max(0, extra - 2) : extra + 3])
        yield Violation(
            "COM-01",
            f"{words[extra]!r} was committed and not in the audio, near {near!r}; "
            f"{len(spelled)} words expected, {len(words)} received",
            kind="extra",
        )
    elif "  " in text:
        yield Violation("COM-03", f"two spaces in {text!r}", kind="spacing")
    elif len(tokens) == len(words):
        for index, token in pairs:
            yield from _misplaced(expected[index], tokens[token])


def _misplaced(word: ExpectedWord, token: ASRToken) -> Iterator[Violation]:
    for name, actual, (low, high) in (
        ("starts", token.start, word.start),
        ("ends", token.end, word.end),
    ):
        error = max(low - actual, actual - high)
        if error > TOLERANCE:
            yield Violation(
                "TIME-05",
                f"{token.text!r} {name} at {actual:.3f} s, expected {low:.3f} to {high:.3f} s",
                kind="time",
            )
            return


def _part(origin: int, stop: int, half: int, cuts: Sequence[int], total: int) -> tuple[int, int]:
    """Return the part of a word between the cuts around the end of its first half cell."""
    edges = sorted({0, *cuts, total})
    index = bisect_right(edges, half - 1)
    return max(origin, edges[index - 1]), min(stop, edges[index])


def _range(first: float, second: float) -> tuple[float, float]:
    return min(first, second), max(first, second)


def _is_joined(expected: Sequence[ExpectedWord], words: Sequence[str]) -> bool:
    """Return whether the text has all letters of the words, and other spaces."""
    return "".join(word.text.strip() for word in expected) == "".join(words)


def _lost(missing: Sequence[ExpectedWord], expected: Sequence[ExpectedWord], words: object) -> str:
    first = missing[0]
    return (
        f"{first.text!r} at {first.start[0]:.3f}-{first.end[1]:.3f} s was not committed: "
        f"{len(missing)} of {len(expected)} words are missing, received {words}"
    )
