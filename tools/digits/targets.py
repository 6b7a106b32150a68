"""The text that the decoder should write for a mixture, and where the row of each word should look.

Engines time words by dynamic time warping over the attention of the rows that predict them: a
frame belongs to the row that attends to it most, and a word starts where its row takes over.
Therefore a row attends to the gap after its word as strongly as the next row does to the next
onset, which puts the takeover at the onset. The row that predicts the end of the text attends right
after the last word, which ends that word where its sound ends.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from attrs import Factory, define, frozen
import numpy as np
from numpy.typing import NDArray
from rng import happens
from vocabulary import (
    END_OF_TEXT,
    ENGLISH,
    FIRST_TIMESTAMP,
    NO_TIMESTAMPS,
    START_OF_PREVIOUS,
    START_OF_TRANSCRIPT,
    TIMESTAMPS,
    TRANSCRIBE,
    WORD_IDS,
    timestamp_id,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixing import Mixture, Word

Distribution = NDArray[np.float32]

POSITIONS_PER_SECOND = 50  # encoder positions, 20 ms each
FIRST_TIMESTAMP_LIMIT = 1.0  # engines allow no later first timestamp by default
WINDOW_SECONDS = 30.0
EDGE = 0.5  # attention at a word's edges and in the gap right before the next onset
MIDDLE = 0.7  # added in the middle of a word
FAR_GAP = 0.2  # attention in the rest of the gap
NEAR_GAP_SECONDS = 0.16
END_SECONDS = 0.3
_TIMESTAMP_SPREAD = 2.0  # positions


@frozen(kw_only=True)
class Look:
    """A row of the decoder input and the encoder positions it should attend to."""

    row: int
    distribution: Distribution


@define(kw_only=True)
class Target:
    """Tokens (full ids) in order; the loss starts at `first_row`, that of <|startoftranscript|>."""

    tokens: list[int]
    first_row: int
    looks: list[Look] = Factory(list)
    looks_back: list[Look] = Factory(list)
    is_empty: bool = False

    def append(self, token: int, look: Distribution | None, look_back: Distribution | None) -> None:
        """Add a token; the row that predicts it is the one before it."""
        row = len(self.tokens) - 1
        self.tokens.append(token)
        if look is not None:
            self.looks.append(Look(row=row, distribution=look))
        if look_back is not None:
            self.looks_back.append(Look(row=row, distribution=look_back))


def draw_target(
    mixture: Mixture,
    positions: int,
    rng: np.random.Generator,
    *,
    with_timestamps: bool,
    longest_prompt: int = 24,
) -> Target:
    """Return a mixture as text with or without timestamps, sometimes after unrelated digits."""
    prompt = _prompt(longest_prompt, rng) if happens(0.25, rng) else []
    target = Target(
        tokens=[*prompt, START_OF_TRANSCRIPT, ENGLISH, TRANSCRIBE], first_row=len(prompt)
    )
    if not mixture.words:
        target.is_empty = True
        target.tokens += [FIRST_TIMESTAMP if with_timestamps else NO_TIMESTAMPS, END_OF_TEXT]
        return target
    looks = [word_look(word, after.start, positions) for word, after in pairwise(mixture.words)]
    looks.append(word_look(mixture.words[-1], mixture.words[-1].end, positions))
    write = _with_timestamps if with_timestamps else _without_timestamps
    write(target, mixture, looks, positions)
    return target


def word_look(word: Word, next_start: float, positions: int) -> Distribution:
    """Return what the row that predicts a word should attend to: the word and the gap after it."""
    centres = (np.arange(positions) + 0.5) / POSITIONS_PER_SECOND
    end = max(word.end, word.start + 0.04)
    middle, half = (word.start + end) / 2, (end - word.start) / 2
    inside = np.abs(centres - middle) <= half
    look = np.where(inside, EDGE + MIDDLE * (1 - np.abs(centres - middle) / half), 0.0)
    gap = (centres > end) & (centres < next_start)
    look = look + np.where(
        gap, np.where(centres > next_start - NEAR_GAP_SECONDS, EDGE, FAR_GAP), 0.0
    )
    total = look.sum()
    return (look / total).astype(np.float32) if total > 0 else _around(word.start, positions)


def _around(time: float, positions: int) -> Distribution:
    steps = (np.arange(positions) + 0.5 - time * POSITIONS_PER_SECOND) / _TIMESTAMP_SPREAD
    look = np.exp(-0.5 * steps**2) + 1e-9
    return (look / look.sum()).astype(np.float32)


def _end_look(words: Sequence[Word], positions: int) -> Distribution:
    """Return the attention of the row that predicts the end of the text: after the last word."""
    centres = (np.arange(positions) + 0.5) / POSITIONS_PER_SECOND
    look = ((centres > words[-1].end) & (centres < words[-1].end + END_SECONDS)).astype(np.float32)
    total = look.sum()
    return look / total if total > 0 else _around(positions / POSITIONS_PER_SECOND, positions)


def _without_timestamps(
    target: Target, mixture: Mixture, looks: Sequence[Distribution], positions: int
) -> None:
    target.tokens.append(NO_TIMESTAMPS)
    previous = None
    for word, look in zip(mixture.words, looks, strict=True):
        target.append(WORD_IDS[word.digit], look, previous)
        previous = look
    target.append(END_OF_TEXT, _end_look(mixture.words, positions), previous)


def _with_timestamps(
    target: Target, mixture: Mixture, looks: Sequence[Distribution], positions: int
) -> None:
    """Write every word between its own start and end.

    A row sees earlier tokens, but not where their rows attended: without timestamps it can only
    count words, and loses its place among thirty. With them it only has to find the next word.
    """
    previous = None
    for index, (word, look) in enumerate(zip(mixture.words, looks, strict=True)):
        start = word.start if index else min(word.start, FIRST_TIMESTAMP_LIMIT)
        target.append(timestamp_id(start), _around(word.start, positions), previous)
        if index == len(looks) - 1 > 0 and _runs_on(mixture, positions):
            break
        target.append(WORD_IDS[word.digit], look, previous)
        target.append(timestamp_id(word.end), _around(word.end, positions), look)
        previous = look
    target.append(END_OF_TEXT, None, None)


def _runs_on(mixture: Mixture, positions: int) -> bool:
    """Return whether speech continues beyond a full window: the last word is then a start only."""
    length = positions / POSITIONS_PER_SECOND
    return mixture.is_cut and length >= WINDOW_SECONDS and mixture.words[-1].end > length - 0.4


def _prompt(longest: int, rng: np.random.Generator) -> list[int]:
    """Return earlier text as engines give it, with timestamps or without."""
    count = int(rng.integers(1, longest))
    with_times = happens(0.2, rng)
    tokens, time = [START_OF_PREVIOUS], 0
    while count > 0:
        words = min(count, int(rng.integers(1, 8)))
        count -= words
        ids = [WORD_IDS[digit] for digit in rng.integers(0, 10, words)]
        if with_times:
            end = min(time + 25 * words, TIMESTAMPS - 1)
            ids = [FIRST_TIMESTAMP + time, *ids, FIRST_TIMESTAMP + end]
            time = min(end + 10, TIMESTAMPS - 1)
        tokens += ids
    return tokens
