"""The words of numbers, dates, times and amounts in the languages whose numbers are written."""

from __future__ import annotations

import json
from pathlib import Path
import re

import attrs

_DATA = Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
_NEVER = "(?!)"  # a pattern that matches nothing
_SEPARATED = re.compile(r"[\s-]+")


@attrs.frozen(kw_only=True)
class Vocabulary:
    """
    The words of one language that can be part of a number, date, time or amount.

    Attributes:
        digits: the words for zero to nine, and other words for them.
        numbers: further numerals, whole words; parts of words where there are `endings`.
        endings: of a compound, such as those of ordinals.
        factors: "hundred" and "thousand", which become zeros.
        scales: "million" and so on, which stay words after digits.
        context: words without which a numeral is written differently, such as "euros" or "half".
        measures: those of `context` with which a "hundred" or "million" is not just "many".
        ranges: words between two numbers of a range, which are written alike.
        conjunctions: words between parts of a number.
        articles: those of `digits` that are also articles.
        capitalised: words that are months only with a capital.
        units: ordinals that are also units, as in "a twenty second pause".
        definite: words with which, as with months, those of `units` are ordinals.
        vague: phrases with which a number is not exact, such as "half a million".
        grouped: digits with spaces that are one number, such as thousands.

    """

    digits: dict[str, str]
    numbers: frozenset[str]
    endings: frozenset[str] = frozenset()
    factors: frozenset[str]
    scales: frozenset[str]
    context: frozenset[str]
    measures: frozenset[str]
    ranges: frozenset[str]
    conjunctions: frozenset[str]
    months: frozenset[str]
    articles: frozenset[str] = frozenset()
    capitalised: frozenset[str] = frozenset()
    units: frozenset[str] = frozenset()
    definite: frozenset[str] = frozenset()
    vague: re.Pattern[str]
    grouped: re.Pattern[str]
    _whole: re.Pattern[str] = attrs.field(init=False)
    _begun: re.Pattern[str] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        numerals = {*self.digits, *self.numbers}
        parts = "|".join(sorted(map(re.escape, numerals), key=len, reverse=True))
        endings = "|".join(("", *sorted(self.endings)))
        inner = f"(?:(?:{parts})(?:und)?)*" if self.endings else ""
        object.__setattr__(self, "_whole", re.compile(f"{inner}(?:{parts})(?:{endings})"))
        words = numerals | self.context | self.months | self.endings
        begun = {word[:length] for word in words for length in range(1, len(word) + 1)}
        starts = "|".join(sorted(map(re.escape, begun), key=len, reverse=True))
        object.__setattr__(self, "_begun", re.compile(f"{inner}(?:{starts})"))

    def is_number(self, word: str) -> bool:
        """Return whether *word*, in any case, is a numeral or several joined by hyphens."""
        parts = _SEPARATED.split(_plain(word))
        return any(self._is_numeral(part) for part in parts) and all(map(self._is_known, parts))

    def is_known(self, word: str) -> bool:
        """Return whether *word* can be part of a number, date, time or amount."""
        if word.lower() in self.capitalised and not word[:1].isupper():
            return False
        return all(map(self._is_known, _SEPARATED.split(_plain(word))))

    def may_begin(self, word: str) -> bool:
        """Return whether *word* or a longer one that begins with it is known."""
        *parts, last = _SEPARATED.split(_plain(word))
        return all(map(self._is_known, parts)) and bool(self._begun.fullmatch(last) or not last)

    def _is_numeral(self, word: str) -> bool:
        return self._whole.fullmatch(word) is not None

    def _is_known(self, word: str) -> bool:
        return word in self.context or word in self.months or self._is_numeral(word)


def _plain(word: str) -> str:
    return word.lower().replace("’", "'")  # noqa: RUF001 -- what models write


def _vocabulary(fields: dict[str, str]) -> Vocabulary:
    """
    Return a vocabulary of words that are separated by spaces; / separates words for a digit.

    `vague` and `grouped` are regular expressions.
    """
    digits = {
        word: str(digit)
        for digit, alternatives in enumerate(fields.pop("digits").split())
        for word in alternatives.split("/")
    }
    return Vocabulary(
        digits=digits,
        vague=re.compile(fields.pop("vague", _NEVER)),
        grouped=re.compile(fields.pop("grouped", _NEVER)),
        **{name: frozenset(words.split()) for name, words in fields.items()},
    )


#: The vocabulary of each language.  Pounds are left out, because a weight would become money.
VOCABULARIES = {language: _vocabulary(fields) for language, fields in json.loads(_DATA).items()}
