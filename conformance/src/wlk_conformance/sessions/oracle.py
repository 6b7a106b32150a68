"""The oracle of coded audio: which words a life of a stream must have committed and shown."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import attrs

from wlk_conformance.compare import align
from wlk_conformance.seams import CHANGES_ITS_MIND, RECENT_SECONDS, STAYS_UNDECIDED
from wlk_conformance.sessions.reports import StreamClock
from wlk_conformance.sessions.session import Violation
from wlk_conformance.testing import CELL_SAMPLES, CELL_SECONDS
from wlk_core import SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from wlk_conformance.sessions.session import Tape, Vocabulary
    from wlk_core import ASRToken

__all__ = ["ExpectedWord", "Life", "Reading", "check_life", "check_running_text"]

HALF_CELL = CELL_SAMPLES // 2  # of its first samples decide which side of a cut has a word
ENOUGH = 480  # samples of a word on its side of a cut with which every engine detects it
RECENT_SAMPLES = RECENT_SECONDS * SAMPLE_RATE
UNCERTAIN = 0.5  # of an error is a word left out that may be missing
NEAR = 40  # characters of committed text in a message
TOLERANCE = CELL_SECONDS + 1e-3  # seconds, as TIME-05 allows on scripted engines


@attrs.frozen(kw_only=True)
class Reading:
    """
    A hypothesis that was read.

    `committed` is the number of tokens that were committed before, `samples` that of the audio
    inserted by then.
    """

    tokens: tuple[ASRToken, ...]
    committed: int
    samples: int


@attrs.define
class Life:
    """A stream from its opening or reset to the next reset or its end."""

    first_sample: int = 0  #: of the tape
    clock: StreamClock = attrs.field(factory=StreamClock)
    cuts: list[int] = attrs.field(factory=list)  #: samples at which a flush ended an utterance
    tokens: list[ASRToken] = attrs.field(factory=list)
    readings: list[Reading] = attrs.field(factory=list)  #: with text, and other than the one before
    is_complete: bool = False  #: finished, so that every word was committed
    may_end_early: bool = False  #: the engine may run before a word that it decodes has ended

    def read(self, tokens: Sequence[ASRToken]) -> None:
        """Note the hypothesis of a read."""
        before = self.readings[-1] if self.readings else None
        is_known = before is not None and before.tokens == tuple(tokens)
        if not tokens or (is_known and before and before.committed == len(self.tokens)):
            return
        self.readings.append(
            Reading(tokens=tuple(tokens), committed=len(self.tokens), samples=self.clock.samples)
        )


@attrs.frozen(kw_only=True)
class ExpectedWord:
    """
    A word as a life of a stream must have committed it.

    Attributes:
        text: with its own spacing.
        mistaken: other texts that are accepted as well, because of the habits of the engine.
        start, end: the ranges of its times in seconds.
        origin, half, stop: its first sample, the end of its first half cell, and its end.
        is_certain: it may not be missing.

    """

    text: str
    mistaken: tuple[str, ...] = ()
    start: tuple[float, float]
    end: tuple[float, float]
    origin: int
    half: int
    stop: int
    is_certain: bool


def expected_words(
    life: Life, tape: Tape, vocabulary: Sequence[str], *, habits: Collection[str] = ()
) -> list[ExpectedWord]:
    """
    Return the words of the tape that lie in *life*.

    A word that a silence or a flush cuts is recognised on the side that has the end of its first
    half cell.  An engine may keep its audio over a flush without silence, so either side of such a
    cut is accepted.  The *habits* of the engine decide which mistakes are.
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
        ends, cuts = {soft[1], hard[1]}, {*pauses, *life.cuts, total}
        is_recent = any(0 <= cut - end < RECENT_SAMPLES for cut in cuts for end in ends)
        words.append(
            ExpectedWord(
                text=vocabulary[id_ - 1],
                mistaken=tuple(
                    vocabulary[(id_ - 1 + later) % len(vocabulary)]
                    for later in _mistakes(habits, is_recent=is_recent)
                ),
                start=_range(clock.time_of(hard[0]), clock.time_of(soft[0])),
                end=_range(
                    clock.time_of(soft[0] if life.may_end_early else soft[1], is_before_pause=True),
                    clock.time_of(hard[1], is_before_pause=True),
                ),
                origin=origin,
                half=half,
                stop=stop,
                is_certain=soft[1] - soft[0] >= ENOUGH,
            )
        )
    return words


def check_life(
    life: Life, tape: Tape, vocabulary: Vocabulary, *, habits: Collection[str] = ()
) -> Iterator[Violation]:
    """
    Compare the tokens of *life* with the words of its audio.

    An engine with *habits*, see SupportsHabits, makes mistakes that are accepted.
    """
    expected = expected_words(life, tape, vocabulary.words, habits=habits)
    tokens = life.tokens
    text = "".join(token.text for token in tokens)
    words = text.split()
    if not vocabulary.is_split_by_spaces:
        words = [token.text.strip() for token in tokens]
    words = _corrected(words, expected)
    if not life.is_complete:  # its last words may still have been held back
        expected = _due(expected, words)
    spelled = [word.text.strip() for word in expected]
    pairs = _paired(expected, words)
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
        timed = [(expected[index], tokens[token]) for index, token in pairs]
        for word, token in timed:
            yield from _misplaced(word, token)
        yield from _misspelled(timed, life, vocabulary)


def _due(expected: Sequence[ExpectedWord], words: Sequence[str]) -> list[ExpectedWord]:
    """Return those of *expected* that a life which is not over can have as *words*."""
    uncertain = sum(not word.is_certain for word in expected)
    return list(expected[: len(words) + uncertain])


def _paired(expected: Sequence[ExpectedWord], words: Sequence[str]) -> list[tuple[int, int]]:
    omissions = [1.0 if word.is_certain else UNCERTAIN for word in expected]
    return align([word.text.strip() for word in expected], words, omissions=omissions)


def check_running_text(
    life: Life, tape: Tape, vocabulary: Vocabulary, *, habits: Collection[str] = ()
) -> Iterator[Violation]:
    """
    Check each hypothesis that was read in *life*, whose committed text is right.

    Its tokens are the words of the audio after the committed ones, in order and without a gap.  The
    newest may be incomplete, and there may be fewer of them than the audio has.
    """
    if not life.readings:
        return
    expected = expected_words(life, tape, vocabulary.words, habits=habits)
    words = _corrected([token.text.strip() for token in life.tokens], expected)
    after = {token: index + 1 for index, token in _paired(_due(expected, words), words)} | {-1: 0}
    undecided = [_undecided(word, vocabulary, habits) for word in expected]
    for reading in life.readings:
        first = after.get(reading.committed - 1)
        near = expected[max(0, (first or 0) - 2) : (first or 0) + len(reading.tokens) + 1]
        if first is None or not all(word.is_certain for word in near):
            continue  # beside a word that may be missing it is not known which one comes next
        rest = [word for word in undecided[first:] if word.origin < reading.samples]
        violation = _check_reading(reading, rest, expected[:first], life, vocabulary)
        if violation is not None:
            yield violation
            return


def _check_reading(
    reading: Reading,
    words: Sequence[ExpectedWord],
    committed: Sequence[ExpectedWord],
    life: Life,
    vocabulary: Vocabulary,
) -> Violation | None:
    """Return what is wrong with a hypothesis of *words*, which follow the *committed* ones."""
    before = "".join(token.text for token in life.tokens[: reading.committed])
    pairs = list(zip(words, reading.tokens, strict=False))
    newest = reading.tokens[-1]
    for word, token in pairs:
        text, texts = token.text.strip(), [text.strip() for text in (word.text, *word.mistaken)]
        if text not in texts and not (token is newest and any(t.startswith(text) for t in texts)):
            break
    else:
        if len(pairs) == len(reading.tokens):
            last = committed[-1] if committed else None
            return _misplaced_reading(pairs, before, last, life, vocabulary)
    spelled = [word.text.strip() for word in words]
    letters = "".join("".join(token.text for token in reading.tokens).split())
    return Violation(
        "COM-03" if "".join(spelled).startswith(letters) else "HYP-02",
        f"the hypothesis {[token.text for token in reading.tokens]} follows the committed "
        f"{before[-NEAR:]!r}, where the audio has {spelled[: len(reading.tokens) + 1]}",
    )


def _misplaced_reading(
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
    # The rest of the newest word, and the space after it, may be still to come.
    shown = newest.text.lstrip()
    texts = [text.lstrip() for text in (word.text, *word.mistaken)]
    whole = next((text for text in texts if text.startswith(shown)), shown)
    pairs[-1] = (word, attrs.evolve(newest, text=newest.text + whole[len(shown) :]))
    found = next(_misspelled(pairs, life, vocabulary, before=before, last=last), None)
    return found and attrs.evolve(
        found, message=f"in the hypothesis {found.message}", kind="invariant"
    )


def _undecided(word: ExpectedWord, vocabulary: Vocabulary, habits: Collection[str]) -> ExpectedWord:
    """Return *word* with every mistake that a hypothesis may have of it."""
    words = vocabulary.words
    index = list(words).index(word.text)
    later = _mistakes(habits, is_recent=True)
    return attrs.evolve(word, mistaken=tuple(words[(index + n) % len(words)] for n in later))


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


def _misspelled(
    words: Sequence[tuple[ExpectedWord, ASRToken]],
    life: Life,
    vocabulary: Vocabulary,
    *,
    before: str = "",
    last: ExpectedWord | None = None,
) -> Iterator[Violation]:
    """
    Yield COM-03 for a token with other spaces than those of its word.

    They follow the text *before*, which ends with the word *last*.

    A word keeps its own spacing, and after a pause that of text decoded separately.  After a
    flush without a pause either is accepted.
    """
    for word, token in words:
        texts = (word.text, *word.mistaken)
        own = next((text for text in texts if text.strip() == token.text.strip()), word.text)
        apart = vocabulary.joined(before, own)
        allowed = {own if last else own.lstrip()}
        if last is not None and _lie_between(life, last.half, word.half - 1, is_pause=True):
            allowed = {apart}
        elif last is None or _lie_between(life, last.origin, word.stop):
            allowed.add(apart)
        if token.text not in allowed:
            expected = " or ".join(map(repr, sorted(allowed)))
            yield Violation(
                "COM-03",
                f"{token.text!r} follows {before[-20:]!r}, expected {expected}",
                kind="spacing",
            )
            return
        before, last = before + token.text, word


def _lie_between(life: Life, first: int, final: int, *, is_pause: bool = False) -> bool:
    samples = [sample for sample, _ in life.clock.pauses] + ([] if is_pause else life.cuts)
    return any(first <= sample <= final for sample in samples)


def _corrected(words: Sequence[str], expected: Sequence[ExpectedWord]) -> list[str]:
    """Return *words* with those that may be mistaken as they were spoken."""
    corrected, rest = list(words), iter(expected)
    for index, actual in enumerate(corrected):
        for word in rest:
            if actual in {text.strip() for text in word.mistaken}:
                corrected[index] = word.text.strip()
            if word.is_certain or corrected[index] == word.text.strip():
                break
    return corrected


def _mistakes(habits: Collection[str], *, is_recent: bool) -> list[int]:
    """Return how much later in the vocabulary a mistaken word may be; see SupportsHabits."""
    later = {0, 1, 2} if is_recent and CHANGES_ITS_MIND in habits else {0}
    if STAYS_UNDECIDED in habits:
        later |= {number + 3 for number in later}
    return sorted(later - {0})


def _part(origin: int, stop: int, half: int, cuts: Sequence[int], total: int) -> tuple[int, int]:
    """Return the part of a word between the cuts around the end of its first half cell."""
    edges = sorted({0, *cuts, total})
    index = bisect_right(edges, half - 1)
    return max(origin, edges[index - 1]), min(stop, edges[index])


def _range(first: float, second: float) -> tuple[float, float]:
    return min(first, second), max(first, second)


def _is_joined(expected: Sequence[ExpectedWord], words: Sequence[str]) -> bool:
    return "".join(word.text.strip() for word in expected) == "".join(words)


def _lost(missing: Sequence[ExpectedWord], expected: Sequence[ExpectedWord], words: object) -> str:
    first = missing[0]
    return (
        f"{first.text!r} at {first.start[0]:.3f}-{first.end[1]:.3f} s was not committed: "
        f"{len(missing)} of {len(expected)} words are missing, received {words}"
    )
