"""Write the numbers, dates, times and amounts of money of a clause with digits."""

from __future__ import annotations

from difflib import SequenceMatcher
from functools import cache, lru_cache
import re
from threading import Lock
from typing import TYPE_CHECKING

from damga import InverseNormalizer

from wlk_format.engine.vocabulary import VOCABULARIES
from wlk_format.engine.words import Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wlk_format.engine.words import Word

_DIGITS = re.compile(r"\d")
_AM_PM = re.compile(r"([ap])\.m", re.IGNORECASE)  # damga reads "am" and "a m"
_SEVERAL = re.compile(r"\b\d+ \d+\b")


class Numbers:
    """
    Write the numbers of one language.

    damga writes each run of words that can be part of a number.  Numbers below ten or thirteen,
    depending on the language, stay words, and so does what has more than one reading: "fifty
    fifty", "a thousand times", "ten pounds", which may be a weight.  Runs with digits stay, because
    the recognizer has written them.
    """

    def __init__(self, language: str) -> None:
        """Load the grammar of a language of `VOCABULARIES`."""
        self._language = language
        self._vocabulary = VOCABULARIES[language]
        _normalizer(language)

    def joins(self, words: Sequence[Word], following: Word | None) -> bool:
        """As `Stage.joins`: words of a run follow each other without punctuation."""
        last = words[-1]
        if last.tail:  # " p." and "m."
            return not last.is_whole and self._vocabulary.may_begin(last.core + last.tail)
        if not self._is_part(last):
            return False
        if following is None:
            return True
        return not following.head.strip() and self._is_part(following)

    def _is_part(self, word: Word) -> bool:
        if any(map(str.isdecimal, word.core)) or word.is_rest:
            return not word.is_rest
        return self._vocabulary.is_known(word.core) or self.may_begin(word)

    def spans(self, words: Sequence[Word]) -> list[Span]:
        """As `Stage.spans`."""
        found: list[Span] = []
        start = 0
        for stop in range(1, len(words) + 1):
            run = words[start:stop]
            if stop < len(words) and self.joins(run, words[stop]):
                continue
            if not run[0].is_rest:
                found += (Span(start + a, start + b, text) for a, b, text in self._changes(run))
            start = stop
        return found

    def may_begin(self, word: Word) -> bool:
        """Return whether further tokens can make *word* part of a number."""
        return not word.is_whole and self._vocabulary.may_begin(word.core)

    def value(self, word: str) -> str | None:
        """Return the digits of a whole number written as one word, None for any other word."""
        if word in self._vocabulary.digits:
            return self._vocabulary.digits[word]
        return _value(self._language, word) if self._vocabulary.is_number(word) else None

    def is_article(self, word: str) -> bool:
        """Return whether *word* is an article, even if it is also a numeral."""
        return word.lower() in self._vocabulary.articles

    def _changes(self, run: Sequence[Word]) -> Iterator[tuple[int, int, str]]:
        before = [_AM_PM.sub(r"\1m", word.core) for word in run]
        if any(_DIGITS.search(core) for core in before) or not self._is_exact(before):
            return
        text = _write(self._language, " ".join(before))
        if not self._is_sound(text):
            return
        after = text.split()
        codes = SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes()
        if any(tag in {"insert", "delete"} for tag, *_ in codes):
            codes = [("replace", 0, len(before), 0, len(after))]
        for tag, start, stop, at, to in codes:
            if tag != "equal":
                yield start, stop, " ".join(after[at:to])

    def _is_exact(self, run: Sequence[str]) -> bool:
        """Return whether no number is just "many", or part of a range that leaves out words."""
        known = self._vocabulary
        words = [word.lower() for word in run]
        numbers = [each for each in words if known.is_number(each) and each not in known.articles]
        is_many = (known.factors | known.scales).issuperset(numbers)
        if is_many and known.measures.isdisjoint(words):
            return False
        for at, word in enumerate(words):  # "ten or twelve hundred"
            before, after = words[:at][-1:], words[at + 1 :]
            if word in known.ranges and any(map(known.is_number, before)):
                has_factor = not known.factors.isdisjoint(after)
                if has_factor and known.factors.isdisjoint(words[:at]):
                    return False
        # "half a million"; "a twenty second pause", which lasts twenty seconds and is not the 22nd
        has_unit = not known.units.isdisjoint(words)
        is_ordinal = not (known.definite | known.months).isdisjoint(words)
        return not (known.vague.search(" ".join(words)) or (has_unit and not is_ordinal))

    def _is_sound(self, text: str) -> bool:
        """Return whether no number or range is half words and half digits."""
        if _SEVERAL.search(self._vocabulary.grouped.sub("", text)):
            return False
        words = text.lower().split()
        return not any(
            self._is_left_over(words[at + 1 : at + 3])
            or self._is_left_over(words[max(0, at - 2) : at][::-1])
            for at, word in enumerate(words)
            if _DIGITS.search(word)
        )

    def _is_left_over(self, beside: Sequence[str]) -> bool:
        """Return whether a number in words is the first of two words, or linked by the first."""
        known = self._vocabulary
        links = known.ranges | known.conjunctions
        near = beside[0] if beside and beside[0] not in links else "".join(beside[1:])
        return known.is_number(near) and near not in known.articles | known.scales


@lru_cache(maxsize=1024)
def _value(language: str, word: str) -> str | None:
    text = _write(language, word)
    return text if text.isdecimal() else None


@cache
def _normalizer(language: str) -> tuple[InverseNormalizer, Lock]:
    # The grammars are 3 to 6 MB; locked, because damga does not document thread safety.
    return InverseNormalizer(lang=language), Lock()


def _write(language: str, text: str) -> str:
    normalizer, lock = _normalizer(language)
    with lock:
        return str(normalizer.normalize(text))
