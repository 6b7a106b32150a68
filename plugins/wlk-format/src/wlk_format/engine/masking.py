"""Mask e-mail addresses, card and telephone numbers, whether written or spelled out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import phonenumbers
from phonenumbers import Leniency

from wlk_format.engine.words import Span

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from wlk_format.engine.numbers import Numbers
    from wlk_format.engine.words import Word

KINDS = ("profanity", "email", "card", "phone", "number")

_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[^\W\d_]{2,}")
_INNER = ".@-+"  # punctuation that can be followed by more of an address
_LABEL = re.compile(r"[\w-]+")
_HOST = re.compile(r"[\w-]+(?:\.[\w-]+)*\.[^\W\d_]{2,}")
_ACCOUNT = re.compile(r"[^\W\d_]+[._+\d][\w.+-]*")  # "jo.smith at example.com", not "us at ..."
_DOMAINS = frozenset(
    """
    com org net edu gov info biz dev app cat ai ar at au be br ca ch cl co cz de dk es eu fi fr ie
    in io it lu me mx nl no nz pl pt se tv uk us
    """.split()  # noqa: SIM905 -- a list would take a line for each
)
_DOTS = frozenset(("dot", "punkt", "point", "punto"))
_JOINTS = _DOTS | {"underscore", "unterstrich", "dash", "minus", "hyphen", "bindestrich", "tiret"}
_AT = frozenset(("ät", "klammeraffe", "arobase", "arobas", "arroba"))
_SPOKEN_AT = _AT | {"at"}
# Before "at", these begin no address: "visit us at example dot com".
_NO_ACCOUNTS = frozenset(
    """
    us me him her it them you look looking find found here there online available is are was were
    be been and website site page shop blog out now again today up or back live more details
    information starts works work worked
    """.split()  # noqa: SIM905 -- as above
)

_NUMERIC = re.compile(r"\+?\(?\d[\d().,/-]*")
_SEPARATORS = re.compile(r"\D")
_TIMES = {"double": 2, "triple": 3}
_ZEROS = {"hundred": "00", "thousand": "000"}  # "five thousand", the end of a telephone number
_PLUS = "plus"
_BEFORE_DIGITS = {*_TIMES, _PLUS}
_SAID = {*_BEFORE_DIGITS, *_ZEROS}
# Visa; Mastercard, Diners Club, JCB, Discover, Maestro and UnionPay; American Express.
_CARD = re.compile(
    r"4\d{12}(?:\d{3}){0,2}|(?:5[1-5]|2[2-7]|3[0689]|35|6[0245])\d{12,17}|3[47]\d{13}"
)
_MIN_DIGITS = 3  # of a masked "number"
_MIN_PHONE, _MAX_PHONE = 7, 15  # digits with country code, at most: ITU-T E.164
_MAX_CARD = 19  # ISO/IEC 7812
_COUNTING = "".join(map(str, range(1, 20))), "0123456789"
_REGIONS = {"en": "US", "de": "DE", "fr": "FR", "es": "ES"}


class Emails:
    """Mask addresses: jo@example.com, "jo at example dot com"."""

    def joins(self, words: Sequence[Word], following: Word | None) -> bool:
        """As `Stage.joins`: every word can begin an address, which the next one shows."""
        last = words[-1]
        if last.tail and (last.is_whole or last.tail not in _INNER):
            return False
        return following is None or _is_joint(last) or _is_joint(following)

    def spans(self, words: Sequence[Word]) -> list[Span]:
        """As `Stage.spans`."""
        found: list[Span] = []
        at = 0
        while at < len(words):
            bounds = self._around(words, at)
            if bounds and bounds[0] >= (found[-1].stop if found else 0):
                found.append(Span(*bounds, "[email]"))
            at = bounds[1] if bounds else at + 1
        return found

    def _around(self, words: Sequence[Word], at: int) -> tuple[int, int] | None:
        """Return the words of the address whose @ is in word *at*."""
        lower = words[at].core.lower()
        if "@" in lower.strip("@"):
            stop = _after_labels(words, at + 1)
            if _EMAIL.search(lower) or stop > at + 1:
                return _account_start(words, at), stop
            return None
        if lower not in _SPOKEN_AT or not 0 < at < len(words) - 1 or words[at - 1].tail:
            return None
        account, host = words[at - 1].core.lower(), words[at + 1].core.lower()
        start, stop = _account_start(words, at - 1), _after_labels(words, at + 2)
        if _HOST.fullmatch(host):
            is_account = start < at - 1 or bool(_ACCOUNT.fullmatch(account)) or lower in _AT
            return (start, stop) if is_account else None
        is_host = stop > at + 2 and _LABEL.fullmatch(host) and not words[at + 1].tail
        is_account = start < at - 1 or account not in _NO_ACCOUNTS
        return (start, stop) if is_host and is_account else None


def _is_joint(word: Word) -> bool:
    lower, joints = word.core.lower(), _JOINTS | _SPOKEN_AT
    may_begin = not word.is_whole and any(joint.startswith(lower) for joint in joints)
    return may_begin or lower in joints


def _account_start(words: Sequence[Word], at: int) -> int:
    """Return where an account begins whose last part is word *at*."""
    while at > 1 and words[at - 1].core.lower() in _JOINTS and not words[at - 2].tail:
        at -= 2
    return at


def _after_labels(words: Sequence[Word], at: int) -> int:
    """Return the index after ". label . label ..." from word *at*; *at* if there is none."""
    stop = at
    while (
        stop + 1 < len(words)
        and words[stop].core.lower() in _JOINTS
        and not words[stop].tail
        and _LABEL.fullmatch(words[stop + 1].core.lower())
    ):
        stop += 2
        if words[stop - 1].tail:
            break
    is_domain = stop > at and words[stop - 1].core.lower() in _DOMAINS
    return stop if is_domain and words[stop - 2].core.lower() in _DOTS else at


class _Run:
    """Words of digits that follow each other, words[start:stop]."""

    def __init__(self, words: Sequence[Word], start: int, stop: int) -> None:
        self.words = words
        self.start = start
        self.stop = stop
        self._phones: set[tuple[int, int]] | None = None

    def is_edge(self, at: int) -> bool:
        """Return whether the run begins or ends at word *at*, or has punctuation there."""
        return at in {self.start, self.stop} or bool(self.words[at - 1].tail)

    def written_phones(self, region: str | None) -> set[tuple[int, int]]:
        """Return where there are telephone numbers in digits."""
        if self._phones is None:
            texts = [
                word.text if _NUMERIC.fullmatch(word.core) else "|"
                for word in self.words[self.start : self.stop]
            ]
            text = " ".join(texts)
            # Invoice 2024-000123 has the digits of a number of the United States, but not its form.
            found = [
                *phonenumbers.PhoneNumberMatcher(text, region, Leniency.STRICT_GROUPING),
                *(
                    match
                    for match in phonenumbers.PhoneNumberMatcher(text, region, Leniency.VALID)
                    if match.raw_string.startswith(("+", "0", "(0"))
                ),
            ]
            self._phones = {
                (
                    self.start + text.count(" ", 0, match.start),
                    self.start + text.count(" ", 0, match.end) + 1,
                )
                for match in found
            }
        return self._phones


class DigitRuns:
    """
    Mask runs of digits, written or spoken, that are numbers of cards or telephones.

    Args:
        kinds: those of `KINDS` to mask.
        region: the country whose telephone numbers need no country code; None for none.
        numbers: the numerals of the language; None if they are not known.

    """

    def __init__(self, kinds: Collection[str], region: str | None, numbers: Numbers | None) -> None:
        self._kinds = kinds
        self._region = region
        self._numbers = numbers

    def joins(self, words: Sequence[Word], following: Word | None) -> bool:
        """As `Stage.joins`: punctuation does not end a run, because models invent it."""
        return self._is_part(words[-1]) and (following is None or self._is_part(following))

    def _is_part(self, word: Word) -> bool:
        lower = word.core.lower()
        if lower in _SAID or _NUMERIC.fullmatch(lower):
            return True
        if not word.is_whole and any(said.startswith(lower) for said in _SAID):
            return True
        if self._numbers is None:
            return False
        return self._value(lower) is not None or self._numbers.may_begin(word)

    def _value(self, word: str) -> str | None:
        return _ZEROS.get(word) or (self._numbers.value(word) if self._numbers else None)

    def spans(self, words: Sequence[Word]) -> list[Span]:
        """As `Stage.spans`."""
        found: list[Span] = []
        start = 0
        for stop in range(1, len(words) + 1):
            if stop < len(words) and self.joins(words[start:stop], words[stop]):
                continue
            if self._is_part(words[start]):
                found += self._in_run(words, start, stop)
            start = stop
        return found

    def _in_run(self, words: Sequence[Word], start: int, stop: int) -> Iterator[Span]:
        """Yield the masked numbers from left to right."""
        while stop > start and words[stop - 1].core.lower() in _BEFORE_DIGITS:
            stop -= 1
        run = _Run(words, start, stop)
        at = start
        while at < stop:
            span = self._at(run, at)
            if span:
                yield span
            at = span.stop if span else at + 1

    def _at(self, run: _Run, at: int) -> Span | None:
        """Return the longest number of the first kind that begins at word *at*."""
        tests = {"card": self._is_card, "phone": self._is_phone, "number": self._is_number}
        readings = self._readings(run.words[at : min(run.stop, at + _MAX_CARD + 1)])
        for kind, is_kind in tests.items():
            for count in range(len(readings), 0, -1):
                if kind in self._kinds and is_kind(run, at, at + count, readings[count - 1]):
                    return Span(at, at + count, f"[{kind}]", has_plus=True)
        return None

    def _is_card(self, _run: _Run, _start: int, _end: int, readings: set[str]) -> bool:
        return any(map(_is_card, readings))

    def _is_phone(self, run: _Run, start: int, end: int, readings: set[str]) -> bool:
        if all(_NUMERIC.fullmatch(word.core) for word in run.words[start:end]):
            return (start, end) in run.written_phones(self._region)
        # Digits spoken as part of a longer number are not a telephone number.
        is_apart = run.is_edge(start) and run.is_edge(end)
        return is_apart and any(map(self._is_dialled, readings))

    def _is_number(self, run: _Run, start: int, end: int, readings: set[str]) -> bool:
        words = run.words[start:end]
        edges = [(words[0], words[1]), (words[-1], words[-2])] if len(words) > 1 else []
        if any(self._is_article(word, beside) for word, beside in edges):
            return False
        return any(len(each.lstrip("+")) >= _MIN_DIGITS for each in readings)

    def _is_article(self, word: Word, beside: Word) -> bool:
        """Return whether *word* is an article, as in "2024 un", not a digit."""
        is_written = _NUMERIC.fullmatch(beside.core) is not None
        return is_written and self._numbers is not None and self._numbers.is_article(word.core)

    def _readings(self, words: Sequence[Word]) -> list[set[str]]:
        """Return the digits of words[:1], words[:2], ...; "forty one" is read as 41 and as 401."""
        found: list[set[str]] = []
        readings = {""}
        factor = 1
        for word in words:
            lower = word.core.lower()
            if lower == _PLUS or "+" in word.head:
                readings = {"+"} if readings == {""} else set()
            if lower in _TIMES:
                factor = _TIMES[lower]
            elif _NUMERIC.fullmatch(lower):
                readings = {each + _SEPARATORS.sub("", lower) * factor for each in readings}
                factor = 1
            elif lower != _PLUS:
                value = self._value(lower) or ""
                units = {f"{each[:-1]}{value}" for each in readings if _is_tens(each, value)}
                readings = {each + value * factor for each in readings} | units
                factor = 1
            # Each "twenty one" would double the readings, most of them longer than any number.
            readings = {each for each in readings if len(each) <= _MAX_CARD + 1}
            found.append(readings if factor == 1 else set())  # "double" belongs to the next word
        return found

    def _is_dialled(self, digits: str) -> bool:
        """Return whether spoken *digits* are a valid number with the prefix that one dials."""
        if not _MIN_PHONE <= len(digits.lstrip("+")) <= _MAX_PHONE or any(
            digits in each for each in _COUNTING
        ):
            return False
        if not digits.startswith("+"):
            metadata = self._region and phonenumbers.PhoneMetadata.metadata_for_region(self._region)
            if not metadata or (metadata.national_prefix == "0" and digits[0] != "0"):
                return False
        try:
            number = phonenumbers.parse(digits, self._region)
        except phonenumbers.NumberParseException:
            return False
        return phonenumbers.is_valid_number(number)


def _is_tens(digits: str, value: str) -> bool:
    """Return whether *digits* end in 20, 30, ... and *value* is a digit that can be added."""
    return len(value) == 1 and value != "0" and re.search("[2-9]0$", digits) is not None


def default_region(language: str) -> str | None:
    """Return the country whose numbers are expected in *language*; None for no country."""
    return _REGIONS.get(language)


def _is_card(digits: str) -> bool:
    """Return whether *digits* have the form and the check digit (Luhn) of a payment card."""
    if not _CARD.fullmatch(digits):
        return False
    doubled = [int(each) * (1 + at % 2) for at, each in enumerate(reversed(digits))]
    return sum(each // 10 + each % 10 for each in doubled) % 10 == 0
