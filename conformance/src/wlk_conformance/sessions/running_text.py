"""The oracle of hypotheses: committed text and hypothesis are what the audio so far can give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_conformance.sessions.oracle import (
    TOLERANCE,
    expected_words,
    misspelled,
    mistakes,
)
from wlk_conformance.sessions.session import Violation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from wlk_conformance.sessions.oracle import ExpectedWord, Life, Reading
    from wlk_conformance.sessions.session import Tape, Vocabulary
    from wlk_core import ASRToken

__all__ = ["check_running_text"]

NEAR = 40  # characters of committed text in a message
Positions = frozenset[int]  # how many of the expected words the transcript may have reached


def check_running_text(
    life: Life, tape: Tape, vocabulary: Vocabulary, *, habits: Collection[str] = ()
) -> Iterator[Violation]:
    """
    Check each hypothesis that was read in *life*, whose committed text is right.

    Its words are those of the audio after the committed ones, in order and without a gap.  The
    newest may be incomplete, and there may be fewer of them than the audio has.
    """
    if not life.readings:
        return
    committed = expected_words(life, tape, vocabulary.words, habits=habits)
    words = [_undecided(word, vocabulary, habits) for word in committed]
    units = _units("".join(token.text for token in life.tokens), life.tokens, vocabulary)
    reached = [frozenset({0})]
    for unit in units:
        reached.append(_after(reached[-1], unit, committed))
    for reading in life.readings:
        violation = _check(reading, life, words, reached, vocabulary)
        if violation is not None:
            yield violation
            return


def _check(
    reading: Reading,
    life: Life,
    words: Sequence[ExpectedWord],
    reached: Sequence[Positions],
    vocabulary: Vocabulary,
) -> Violation | None:
    tokens = life.tokens[: reading.committed]
    before = "".join(token.text for token in tokens)
    first = len(_units(before, tokens, vocabulary))
    both = [*tokens, *reading.tokens]
    text = "".join(token.text for token in reading.tokens)
    units = _units(before + text, both, vocabulary)
    is_continued = vocabulary.is_split_by_spaces and before and not text[:1].isspace()
    first -= bool(is_continued)  # the hypothesis goes on in the last committed word
    starts = reached[first] if first < len(reached) else frozenset()
    if not starts:
        return None  # the oracle of committed text judges that
    inserted = [word for word in words if word.origin < reading.samples]
    ends, paths = starts, [starts]
    for number, unit in enumerate(units[first:], start=first + 1):
        ends = _after(ends, unit, inserted, may_be_cut=number == len(units))
        paths.append(ends)
    if not ends:
        return _unexpected(before, text, units[first:], starts, inserted)
    is_certain = all(len(positions) == 1 for positions in paths)
    if is_continued or len(units) - first != len(reading.tokens) or not is_certain:
        return None
    last, *shown = (inserted[number - 1] if number else None for (number,) in paths)
    pairs = [(word, token) for word, token in zip(shown, reading.tokens, strict=True) if word]
    return _misplaced(pairs, before, last, life, vocabulary)


def _units(text: str, tokens: Sequence[ASRToken], vocabulary: Vocabulary) -> list[str]:
    if vocabulary.is_split_by_spaces:
        return text.split()
    return [token.text.strip() for token in tokens]


def _after(
    positions: Positions, unit: str, words: Sequence[ExpectedWord], *, may_be_cut: bool = False
) -> Positions:
    """Return the positions after *unit*; words that may be missing are passed over."""
    reached = set()
    for position in positions:
        for index in range(position, len(words)):
            if _is_spelled(unit, words[index], may_be_cut=may_be_cut):
                reached.add(index + 1)
            if words[index].is_certain:
                break
    return frozenset(reached)


def _is_spelled(unit: str, word: ExpectedWord, *, may_be_cut: bool) -> bool:
    texts = {text.strip() for text in (word.text, *word.mistaken)}
    return unit in texts or (may_be_cut and any(text.startswith(unit) for text in texts))


def _undecided(word: ExpectedWord, vocabulary: Vocabulary, habits: Collection[str]) -> ExpectedWord:
    """Return *word* with every mistake that a hypothesis may have of it."""
    index = list(vocabulary.words).index(word.text)
    spelled = tuple(
        vocabulary.words[(index + later) % len(vocabulary.words)]
        for later in mistakes(habits, is_recent=True)
    )
    return attrs.evolve(word, mistaken=spelled)


def _unexpected(
    before: str,
    text: str,
    units: Sequence[str],
    starts: Positions,
    words: Sequence[ExpectedWord],
) -> Violation:
    letters = "".join(units)
    spelled = [[word.text.strip() for word in words[start:]] for start in sorted(starts)]
    is_spacing = any(letters and "".join(rest).startswith(letters) for rest in spelled)
    return Violation(
        "COM-03" if is_spacing else "HYP-02",
        f"the hypothesis {text!r} follows the committed {before[-NEAR:]!r}, where the audio has "
        f"{spelled[0][: len(units) + 1]}",
    )


def _misplaced(
    pairs: list[tuple[ExpectedWord, ASRToken]],
    before: str,
    last: ExpectedWord | None,
    life: Life,
    vocabulary: Vocabulary,
) -> Violation | None:
    for word, token in pairs:
        low, high = word.start[0] - TOLERANCE, word.start[1] + TOLERANCE
        if not low <= token.start <= high or token.end > word.end[1] + TOLERANCE:
            return Violation(
                "TIME-05",
                f"the hypothesis has {token.text!r} at {token.start:.3f}-{token.end:.3f} s, "
                f"expected {word.start[0]:.3f}-{word.end[1]:.3f} s",
            )
    word, newest = pairs[-1]
    pairs[-1] = (word, attrs.evolve(newest, text=_completed(newest.text, word)))
    found = next(misspelled(pairs, life, vocabulary, before=before, last=last), None)
    return found and attrs.evolve(
        found, message=f"in the hypothesis {found.message}", kind="invariant"
    )


def _completed(text: str, word: ExpectedWord) -> str:
    """Return *text* with the rest of the word that it begins, and the space after it."""
    shown = text.lstrip()
    spelled = [own for own in (word.text, *word.mistaken) if own.lstrip().startswith(shown)]
    return text + spelled[0].lstrip()[len(shown) :] if spelled else text
