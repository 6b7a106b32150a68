"""Emitted words: tokens of a log joined to words, with the time at which each was complete."""

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
    A word with its own time and the times of its emission.

    The word was complete when audio up to `audio_time` had been given (computation-unaware),
    `wall` seconds after the start of the stream (computation-aware).
    """

    text: str
    start: float
    end: float
    audio_time: float
    wall: float


def transcript(log: EventLog) -> str:
    """Return the committed text, joined with the spacing of its tokens."""
    return "".join(token.text for commit in log.of(Commit) for token in commit.tokens)


def committed_words(log: EventLog, unit: str = "word") -> tuple[EmittedWord, ...]:
    """Return the committed words, or characters; a word is complete with its last token."""
    joiner = _Joiner(unit)
    for commit in log.of(Commit):
        for token in commit.tokens:
            joiner.add(token, commit.audio_time, commit.wall)
    return tuple(joiner.words)


@attrs.frozen
class Screen:
    """
    The text on the screen after a chunk in which it changed.

    The words before `base` did not change; from there on they are `tail`.
    """

    audio_time: float
    wall: float
    base: int
    tail: tuple[EmittedWord, ...]


def screens(log: EventLog, unit: str = "word") -> Iterator[Screen]:
    """
    Yield every text that was on the screen: committed text followed by the hypothesis.

    All changes of one chunk, or of one flush, are one screen.
    """
    joiner = _Joiner(unit)
    hypothesis: tuple[TimedText, ...] = ()
    waiting: tuple[float, float] | None = None
    base = 0
    for event in log.events:
        is_next = isinstance(event, AudioIn) or (isinstance(event, Call) and event.kind in FLUSHES)
        if is_next and waiting is not None:
            yield Screen(*waiting, base, joiner.words_from(base, hypothesis, waiting))
            base = max(0, len(joiner.words) - 1)  # the last word may still grow
            waiting = None
        if not isinstance(event, (Commit, HypothesisShown)):
            continue
        waiting = event.audio_time, event.wall
        if isinstance(event, Commit):
            for token in event.tokens:
                joiner.add(token, event.audio_time, event.wall)
        else:
            hypothesis = event.tokens
    if waiting is not None:
        yield Screen(*waiting, base, joiner.words_from(base, hypothesis, waiting))


@attrs.define
class _Joiner:
    """Join tokens to words, token by token."""

    unit: str
    words: list[EmittedWord] = attrs.field(factory=list)
    _is_open: bool = attrs.field(default=False, alias="is_open")

    def add(self, token: TimedText, audio_time: float, wall: float) -> None:
        """Append a token, to the last word unless white space separates them."""
        is_char = self.unit == "char"
        pieces = list("".join(token.text.split())) if is_char else token.text.split()
        for index, piece in enumerate(pieces):
            word = EmittedWord(piece, token.start, token.end, audio_time, wall)
            continues = index == 0 and self._is_open and not token.text[0].isspace()
            if continues and not is_char:
                last = self.words.pop()
                word = attrs.evolve(word, text=last.text + piece, start=last.start)
            self.words.append(word)
        if token.text:
            self._is_open = bool(self.words) and not token.text[-1].isspace()

    def words_from(
        self, base: int, hypothesis: Sequence[TimedText], times: tuple[float, float]
    ) -> tuple[EmittedWord, ...]:
        """Return the words from *base* on, followed by those of a hypothesis."""
        joiner = _Joiner(self.unit, self.words[base:], is_open=self._is_open)
        for token in hypothesis:
            joiner.add(token, *times)
        return tuple(joiner.words)
