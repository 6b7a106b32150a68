"""Emitted words: the tokens of a log joined into words, each with the time of its completion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_bench.events import FLUSHES, AudioIn, Call, Commit, HypothesisShown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wlk_bench.events import EventLog, TimedText


@attrs.frozen
class EmittedWord:
    """
    A word with its start and end in the audio and the times of its emission.

    The word was complete once audio up to `audio_time` had been inserted (computation-unaware),
    `wall` seconds after the start of the stream (computation-aware).
    """

    text: str
    start: float
    end: float
    audio_time: float
    wall: float


def transcript(log: EventLog) -> str:
    """Return the committed text; the tokens contain the spaces."""
    return "".join(token.text for commit in log.of(Commit) for token in commit.tokens)


def committed_words(log: EventLog, unit: str = "word") -> tuple[EmittedWord, ...]:
    """Return the committed words, or characters for "char"; the last token completes a word."""
    joiner = _Joiner(unit)
    for commit in log.of(Commit):
        for token in commit.tokens:
            joiner.add(token, commit.audio_time, commit.wall)
    return tuple(joiner.words)


@attrs.frozen
class Screen:
    """
    The displayed text after a chunk that changed it.

    The words before index `base` are unchanged; those from there on are `tail`.
    """

    audio_time: float
    wall: float
    base: int
    tail: tuple[EmittedWord, ...]


def screens(log: EventLog, unit: str = "word") -> Iterator[Screen]:
    """
    Yield every displayed text: committed text followed by the hypothesis.

    All changes during one chunk, or one flush, make one screen.
    """
    joiner = _Joiner(unit)
    hypothesis: tuple[TimedText, ...] = ()
    changed: tuple[float, float] | None = None  # time of a change not yet yielded
    base = 0
    for event in log.events:
        is_next = isinstance(event, AudioIn) or (isinstance(event, Call) and event.kind in FLUSHES)
        if is_next and changed is not None:
            yield Screen(*changed, base, joiner.words_from(base, hypothesis, changed))
            base = max(0, len(joiner.words) - 1)  # the last word can still grow
            changed = None
        if not isinstance(event, (Commit, HypothesisShown)):
            continue
        changed = event.audio_time, event.wall
        if isinstance(event, Commit):
            for token in event.tokens:
                joiner.add(token, event.audio_time, event.wall)
        else:
            hypothesis = event.tokens
    if changed is not None:
        yield Screen(*changed, base, joiner.words_from(base, hypothesis, changed))


@attrs.define
class _Joiner:
    """Join tokens into words, token by token."""

    unit: str
    words: list[EmittedWord] = attrs.field(factory=list)
    _can_grow: bool = attrs.field(default=False, alias="can_grow")  # whether the last word can grow

    def add(self, token: TimedText, audio_time: float, wall: float) -> None:
        """Append a token, as part of the last word unless white space separates them."""
        is_char = self.unit == "char"
        pieces = list("".join(token.text.split())) if is_char else token.text.split()
        for index, piece in enumerate(pieces):
            word = EmittedWord(piece, token.start, token.end, audio_time, wall)
            continues = index == 0 and self._can_grow and not token.text[0].isspace()
            if continues and not is_char:
                last = self.words.pop()
                word = attrs.evolve(word, text=last.text + piece, start=last.start)
            self.words.append(word)
        if token.text:
            self._can_grow = bool(self.words) and not token.text[-1].isspace()

    def words_from(
        self, base: int, hypothesis: Sequence[TimedText], times: tuple[float, float]
    ) -> tuple[EmittedWord, ...]:
        """Return the words from *base* on, followed by those of a hypothesis."""
        joiner = _Joiner(self.unit, self.words[base:], can_grow=self._can_grow)
        for token in hypothesis:
            joiner.add(token, *times)
        return tuple(joiner.words)
