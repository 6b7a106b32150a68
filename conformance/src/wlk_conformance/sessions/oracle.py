"""The oracle of coded audio: the words that a stream must have committed and shown."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import attrs

from wlk_conformance.compare import align, letters
from wlk_conformance.interfaces import CHANGES_ITS_MIND, RECENT_SECONDS, STAYS_UNDECIDED
from wlk_conformance.sessions.generated_session import Violation
from wlk_conformance.testing.coded_audio import CELL_SAMPLES, CELL_SECONDS, HALF_CELL
from wlk_core import SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from wlk_conformance.sessions.generated_session import Tape, Vocabulary
    from wlk_conformance.sessions.life_cycle import LifeCycle, Reading
    from wlk_core import ASRToken

MIN_DETECTABLE_SAMPLES = 480  # of a word on one side of a cut, which any engine detects
RECENT_SAMPLES = RECENT_SECONDS * SAMPLE_RATE
OPTIONAL_OMISSION_COST = 0.5  # cost of omitting a word that may be missing, 1 for others
NEAR = 40  # characters of committed text in a message
TOLERANCE = CELL_SECONDS + 1e-3  # seconds, as TIME-05 allows on scripted engines


@attrs.frozen(kw_only=True)
class ExpectedWord:
    """
    A word that a stream must have committed; times are ranges of seconds.

    Because of the engine's habits other texts are accepted as well: those in `mistaken` if the word
    is committed, and those in `undecided` if it is shown.
    """

    text: str  #: with its own spacing
    mistaken: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    start: tuple[float, float]
    end: tuple[float, float]
    origin: int  #: its first sample
    half: int  #: end sample of its first half cell
    end_sample: int
    is_certain: bool  #: it must not be missing

    def may_be_shown_as(self, token: ASRToken, *, is_newest: bool) -> bool:
        """Return whether a hypothesis may have *token* for it; the newest one may lack its end."""
        text = token.text.strip()
        allowed = [word.strip() for word in (self.text, *self.undecided)]
        return text in allowed or (is_newest and any(word.startswith(text) for word in allowed))

    def missing_end(self, token: ASRToken) -> str:
        """Return the end that *token* lacks, the space after the word included."""
        begun = token.text.lstrip()
        for text in (self.text, *self.undecided):
            if text.lstrip().startswith(begun):
                return text.lstrip().removeprefix(begun)
        return ""

    def timing_error(self, token: ASRToken) -> str:
        """Return which end of *token* has a wrong time, "" for none."""
        for name, time, (low, high) in (
            ("starts", token.start, self.start),
            ("ends", token.end, self.end),
        ):
            if max(low - time, time - high) > TOLERANCE:
                return f"{token.text!r} {name} at {time:.3f} s, expected {low:.3f} to {high:.3f} s"
        return ""


class Oracle:
    """Judge a life cycle by the words of its tape; *habits* excuse the engine's mistakes."""

    def __init__(
        self,
        life_cycle: LifeCycle,
        tape: Tape,
        vocabulary: Vocabulary,
        habits: Collection[str] = (),
    ) -> None:
        self._life_cycle = life_cycle
        self._vocabulary = vocabulary
        self._habits = habits
        self._expected = list(self._words(tape))

    def check_tokens(self) -> Iterator[Violation]:
        """Compare the committed tokens with the words of the audio."""
        tokens, expected = self._life_cycle.tokens, self._expected
        text = "".join(token.text for token in tokens)
        words = text.split()
        if not all(word.startswith(" ") for word in self._vocabulary.words):
            words = [token.text.strip() for token in tokens]
        words = _corrected(words, expected)
        if not self._life_cycle.is_complete:  # its last words may still have been held back
            expected = _due(expected, words)
        spelled = [word.text.strip() for word in expected]
        pairs = _paired(expected, words)
        paired = {index for index, _ in pairs}
        missing = [
            word
            for index, word in enumerate(expected)
            if index not in paired and word.is_certain and self._life_cycle.is_complete
        ]
        is_wrong = bool(missing) or len(pairs) < len(words)
        if is_wrong and _is_spelling(spelled, words):
            yield Violation("COM-03", f"the words are {spelled}, the text is {text!r}", "spacing")
        elif missing:
            first = missing[0]
            yield Violation(
                "IN-05",
                f"{first.text!r} at {first.start[0]:.3f}-{first.end[1]:.3f} s was not committed: "
                f"{len(missing)} of {len(expected)} words are missing, received {words}",
                kind="missing",
            )
        elif is_wrong:
            matched = {index for _, index in pairs}
            extra = min(set(range(len(words))) - matched)
            near = " ".join(words[max(0, extra - 2) : extra + 3])
            yield Violation(
                "COM-01",
                f"{words[extra]!r} was committed but is not in the audio, near {near!r}; "
                f"{len(spelled)} words expected, {len(words)} received",
                kind="extra",
            )
        elif "  " in text:
            yield Violation("COM-03", f"two spaces in {text!r}", kind="spacing")
        elif len(tokens) == len(words):
            timed = [(expected[index], tokens[token]) for index, token in pairs]
            errors = [error for word, token in timed if (error := word.timing_error(token))]
            if errors:
                yield Violation("TIME-05", errors[0], kind="time")
            elif misspelled := self._misspelled(timed):
                yield Violation("COM-03", misspelled, kind="spacing")

    def check_readings(self, returned: Collection[str] = ()) -> Iterator[Violation]:
        """
        Check each hypothesis that was read, once the committed text is known to be right.

        Its tokens are the words of the audio after the committed ones, in order and without a gap.
        The newest may be incomplete, and there may be fewer than the audio has.  A word that was
        not spoken is a guess if the engine *returned* it, and a hypothesis with one is not judged.
        """
        expected = self._expected
        words = _corrected([token.text.strip() for token in self._life_cycle.tokens], expected)
        pairs = _paired(_due(expected, words), words)
        # By the number of committed tokens, the number of words that they end with.
        words_committed = {0: 0} | {token + 1: word + 1 for word, token in pairs}
        for reading in self._life_cycle.readings:
            first = words_committed.get(reading.committed)
            if first is None:
                continue
            near = expected[max(0, first - 2) : first + len(reading.tokens) + 1]
            if not all(word.is_certain for word in near):
                continue  # next to a word that may be missing, the next one is not known
            rest = [word for word in expected[first:] if word.origin < reading.samples]
            problem = self._problem_of(reading, rest, expected[:first])
            if problem is None or (problem.rule == "HYP-02" and _is_guess(reading, rest, returned)):
                continue
            yield problem
            return

    def _words(self, tape: Tape) -> Iterator[ExpectedWord]:
        """
        Yield the words of the tape that lie in the life cycle.

        A word that a silence or a flush cuts is recognised on the side with the end of its first
        half cell.  An engine may keep audio over a flush without silence, so either side of such a
        cut is accepted.  The habits of the engine decide which mistakes are accepted.
        """
        life_cycle, vocabulary = self._life_cycle, self._vocabulary.words
        clock = life_cycle.clock
        total = clock.samples
        hard_cuts = [sample for sample, _, _ in clock.pauses]
        soft_cuts = [*hard_cuts, *life_cycle.cuts]
        for id_, cell, cells in tape.tokens:
            origin = cell * CELL_SAMPLES - life_cycle.first_sample
            end_sample = min(origin + cells * CELL_SAMPLES, total)
            half = origin + HALF_CELL
            if not 0 < half <= total:
                continue
            hard = _part(origin, end_sample, half, hard_cuts, total)
            soft = _part(origin, end_sample, half, soft_cuts, total)
            is_recent = any(
                0 <= cut - end < RECENT_SAMPLES
                for cut in {*soft_cuts, total}
                for end in {soft[1], hard[1]}
            )
            end = soft[0] if life_cycle.may_end_early else soft[1]
            yield ExpectedWord(
                text=vocabulary[id_ - 1],
                mistaken=self._mistakes(id_, is_recent=is_recent),
                undecided=self._mistakes(id_, is_recent=True),
                start=(clock.time_of(hard[0]), clock.time_of(soft[0])),
                end=(
                    clock.time_of(end, is_before_pause=True),
                    clock.time_of(hard[1], is_before_pause=True),
                ),
                origin=origin,
                half=half,
                end_sample=end_sample,
                is_certain=soft[1] - soft[0] >= MIN_DETECTABLE_SAMPLES,
            )

    def _mistakes(self, id_: int, *, is_recent: bool) -> tuple[str, ...]:
        """Return the words for which the engine may mistake token *id_*; see SupportsHabits."""
        words = self._vocabulary.words
        later = {0, 1, 2} if is_recent and CHANGES_ITS_MIND in self._habits else {0}
        if STAYS_UNDECIDED in self._habits:
            later |= {number + 3 for number in later}
        return tuple(words[(id_ - 1 + number) % len(words)] for number in sorted(later - {0}))

    def _problem_of(
        self, reading: Reading, words: Sequence[ExpectedWord], committed: Sequence[ExpectedWord]
    ) -> Violation | None:
        """Return what is wrong with a hypothesis of *words*, which follow the *committed* ones."""
        before = "".join(token.text for token in self._life_cycle.tokens[: reading.committed])
        pairs = list(zip(words, reading.tokens, strict=False))
        newest = reading.tokens[-1]
        is_right = len(pairs) == len(reading.tokens) and all(
            word.may_be_shown_as(token, is_newest=token is newest) for word, token in pairs
        )
        if not is_right:
            spelled = [word.text.strip() for word in words]
            shown = [token.text for token in reading.tokens]
            shown_letters = "".join("".join(shown).split())
            return Violation(
                "COM-03" if "".join(spelled).startswith(shown_letters) else "HYP-02",
                f"the hypothesis {shown} follows the committed {before[-NEAR:]!r}, but the audio "
                f"has {spelled[: len(shown) + 1]}",
            )
        for word, token in pairs:
            earliest, latest = word.start[0] - TOLERANCE, word.start[1] + TOLERANCE
            if not earliest <= token.start <= latest or token.end > word.end[1] + TOLERANCE:
                return Violation(
                    "TIME-05",
                    f"the hypothesis has {token.text!r} at {token.start:.3f}-{token.end:.3f} s, "
                    f"expected {word.start[0]:.3f}-{word.end[1]:.3f} s",
                )
        word = pairs[-1][0]
        pairs[-1] = (word, attrs.evolve(newest, text=newest.text + word.missing_end(newest)))
        misspelled = self._misspelled(pairs, before=before, last=[*committed[-1:]])
        return Violation("COM-03", f"in the hypothesis {misspelled}") if misspelled else None

    def _misspelled(
        self,
        words: Sequence[tuple[ExpectedWord, ASRToken]],
        *,
        before: str = "",
        last: Sequence[ExpectedWord] = (),
    ) -> str:
        """
        Return which token has other spaces than its word, "" for none.

        The tokens follow the text *before*, which ends with the word *last*.  After a pause a word
        is spaced like text decoded separately; after a flush without a pause either is accepted.
        """
        pauses = [sample for sample, _, _ in self._life_cycle.clock.pauses]
        cuts = [*pauses, *self._life_cycle.cuts]
        for word, token in words:
            texts = (word.text, *word.undecided)
            own = next((text for text in texts if text.strip() == token.text.strip()), word.text)
            apart = self._vocabulary.joined(before, own)
            allowed = {own if last else own.lstrip()}
            if last and any(last[0].half <= pause < word.half for pause in pauses):
                allowed = {apart}
            elif not last or any(last[0].origin <= cut <= word.end_sample for cut in cuts):
                allowed.add(apart)
            if token.text not in allowed:
                expected = " or ".join(map(repr, sorted(allowed)))
                return f"{token.text!r} follows {before[-20:]!r}, expected {expected}"
            before, last = before + token.text, [word]
        return ""


def _is_guess(reading: Reading, words: Sequence[ExpectedWord], returned: Collection[str]) -> bool:
    """Return whether a hypothesis of *words* has another one that the engine may have guessed."""
    spoken = [text.strip() for word in words for text in (word.text, *word.undecided)]
    shown = [token.text.strip() for token in reading.tokens]
    others = [text for text in shown if not any(word.startswith(text) for word in spoken)]
    return any(text in returned for text in others)


def _is_spelling(expected: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether the words differ only in spaces, or only in case and punctuation."""
    if "".join(expected) == "".join(words):
        return True
    return [_letters_of(text) for text in expected] == [_letters_of(text) for text in words]


def _letters_of(text: str) -> str:
    return letters(text).replace(" ", "")


def _due(expected: Sequence[ExpectedWord], words: Sequence[str]) -> list[ExpectedWord]:
    """Return those of *expected* that can be the *words* of a stream that is not finished."""
    uncertain = sum(not word.is_certain for word in expected)
    return list(expected[: len(words) + uncertain])


def _paired(expected: Sequence[ExpectedWord], words: Sequence[str]) -> list[tuple[int, int]]:
    omissions = [1.0 if word.is_certain else OPTIONAL_OMISSION_COST for word in expected]
    return align([word.text.strip() for word in expected], words, omissions=omissions)


def _corrected(words: Sequence[str], expected: Sequence[ExpectedWord]) -> list[str]:
    """Return *words* with accepted mistakes replaced by the words that were spoken."""
    corrected: list[str] = []
    remaining = iter(expected)  # each spoken word stands for one word at most
    certain_left = sum(word.is_certain for word in expected)
    for index, actual in enumerate(words):
        spelled = actual
        for word in remaining:
            certain_left -= word.is_certain
            if not word.is_certain and len(words) - index <= certain_left:
                continue  # one that may be missing, where the others take all words
            if actual in {text.strip() for text in word.mistaken}:
                spelled = word.text.strip()
            if word.is_certain or spelled == word.text.strip():
                break
        corrected.append(spelled)
    return corrected


def _part(
    origin: int, end_sample: int, half: int, cuts: Sequence[int], total: int
) -> tuple[int, int]:
    """Return the part of a word between the cuts around the end of its first half cell."""
    edges = sorted({0, *cuts, total})
    index = bisect_right(edges, half - 1)
    return max(origin, edges[index - 1]), min(end_sample, edges[index])
